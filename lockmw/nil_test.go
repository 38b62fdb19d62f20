package lockmw_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestWhatIsNilIsNamed(t *testing.T) {
	var ctx context.Context
	ok, local := t.Context(), lockmw.NewLocal()
	var none lockmw.Locker
	client, insp := usertest.Client(t, redistest.Mini(t)), new(lockmw.Inspector)
	fn := func(context.Context) error { return nil }
	tick := lockmw.Every(time.Minute)
	lock := func(ctx context.Context, l lockmw.Locker) func() error {
		return func() error { _, _, err := l.Lock(ctx, "k"); return err }
	}
	all := func(ctx context.Context, l lockmw.Locker) func() error {
		return func() error { _, _, err := lockmw.LockAll(ctx, l, []string{"a", "b"}); return err }
	}
	once := func(l lockmw.Locker, run func(context.Context) error) func() error {
		return func() error { _, err := lockmw.Once(ctx, l, "k", tick, run); return err }
	}
	panics := func(f func()) func() error { return func() error { f(); return nil } }
	_, hold := usertest.Lock(t, ok, local, "held")
	usertest.Explains(t, map[string]func() error{
		"New":                       func() error { _, err := lockmw.New(nil); return err },
		"NewInspector":              func() error { _, err := lockmw.NewInspector(nil); return err },
		"Lock, nil context":         lock(ctx, client),
		"Local.Lock, nil context":   lock(ctx, local),
		"a nil Client":              lock(ok, (*lockmw.Client)(nil)),
		"a zero Client":             lock(ok, &lockmw.Client{}),
		"a zero Local":              lock(ok, &lockmw.Local{}),
		"a nil LockerFunc":          lock(ok, lockmw.LockerFunc(nil)),
		"TryLock of a nil Client":   func() error { _, _, err := (*lockmw.Client)(nil).TryLock(ok, "k"); return err },
		"Logger of a nil Client":    panics(func() { (*lockmw.Client)(nil).Logger() }),
		"Close of a nil Client":     func() error { return (*lockmw.Client)(nil).Close() },
		"Shutdown of a zero Client": func() error { return new(lockmw.Client).Shutdown(ok) },
		"Shutdown, nil context":     func() error { return client.Shutdown(ctx) },
		"RLocker of a zero Local":   panics(func() { new(lockmw.Local).RLocker() }),
		"Expire of a nil Local":     panics(func() { (*lockmw.Local)(nil).Expire("k") }),
		"Downgrade, nil context":    func() error { return local.Downgrade(ctx, hold) },
		"Downgrade of a zero Local": func() error { return new(lockmw.Local).Downgrade(ok, hold) },
		"Downgrade of a zero Hold":  func() error { return local.Downgrade(ok, new(lockmw.Hold)) },
		"Do, nil Locker":            func() error { return lockmw.Do(ok, none, "k", fn) },
		"Do, nil function":          func() error { return lockmw.Do(ok, local, "k", nil) },
		"Do, nil context":           func() error { return lockmw.Do(ctx, local, "k", fn) },
		"LockAll, nil Locker":       all(ok, none),
		"LockAll, nil context":      all(ctx, client),
		"Lead, nil context":         func() error { return lockmw.Lead(ctx, local, "k", fn) },
		"Lead, nil function":        func() error { return lockmw.Lead(ok, local, "k", nil) },
		"Once, nil context":         once(local, fn),
		"Once, nil Locker":          once(none, fn),
		"FromContext":               panics(func() { lockmw.FromContext(ctx) }),
		"Held":                      func() error { _, err := lockmw.Held(ctx, "k"); return err },
		"WithoutHolds":              panics(func() { lockmw.WithoutHolds(ctx) }),
		"NewHold, nil context":      panics(func() { lockmw.NewHold(ctx, "k", 1, fn) }),
		"NewHold, nil function":     panics(func() { lockmw.NewHold(ok, "k", 1, nil) }),
		"WithLock, nil Locker":      panics(func() { lockmw.WithLock(none, lockmw.Const[int]("k"), func(context.Context, int) error { return nil }) }),
		"WithLock, a nil Client": panics(func() {
			lockmw.WithLock((*lockmw.Client)(nil), lockmw.Const[int]("k"), func(context.Context, int) error { return nil })
		}),
		"WithLock, nil function":    panics(func() { lockmw.WithLock[int](local, lockmw.Const[int]("k"), nil) }),
		"a nil Hold's Key":          panics(func() { _ = (*lockmw.Hold)(nil).Key() }),
		"a nil Hold's Token":        panics(func() { (*lockmw.Hold)(nil).Token() }),
		"a zero Hold's Deadline":    panics(func() { new(lockmw.Hold).Deadline() }),
		"a nil Hold's Slots":        panics(func() { (*lockmw.Hold)(nil).Slots() }),
		"a zero Hold's Unlock":      func() error { return new(lockmw.Hold).Unlock() },
		"a zero Hold's Extend":      func() error { return new(lockmw.Hold).Extend(ok, time.Second) },
		"Extend, nil context":       func() error { return hold.Extend(ctx, time.Minute) },
		"Get of a zero Inspector":   func() error { _, err := insp.Get(ok, "k"); return err },
		"Redis of a nil Inspector":  panics(func() { (*lockmw.Inspector)(nil).Redis() }),
		"Prefix of a nil Inspector": panics(func() { (*lockmw.Inspector)(nil).Prefix() }),
		"All, nil context": func() error {
			for _, err := range usertest.Inspector(t, redistest.Mini(t).NewClient(t)).All(ctx) {
				return err
			}
			return nil
		},
	})
	usertest.Unlock(t, hold)
}
