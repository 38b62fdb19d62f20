package recording_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

const slack = 50 * time.Millisecond

// grants returns a Locker that grants every call, with the given tokens in order.
func grants(tokens ...int64) lockmw.Locker {
	return lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		token := tokens[0]
		tokens = tokens[1:]
		ctx, hold := lockmw.NewHold(ctx, key, token, func(context.Context) error { return nil })
		return ctx, hold, nil
	})
}

// refuses returns a Locker that fails with err after d.
func refuses(d time.Duration, err error) lockmw.Locker {
	return lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		time.Sleep(d) // the wait
		return ctx, nil, err
	})
}

func busy(key string) error { return &lockmw.Error{Op: "lock", Key: key, Err: lockmw.ErrBusy} }

func TestRecorderFindsBrokenPromises(t *testing.T) {
	for name, test := range map[string]struct {
		run  func(ctx context.Context, r *recording.Recorder)
		want string // part of the only violation; "" if there is none
	}{
		"an honest locker": {func(ctx context.Context, r *recording.Recorder) {
			local := lockmw.NewLocal()
			for range 3 {
				_, held, _ := r.Lock(ctx, local, "k")
				_, _, _ = r.Lock(ctx, local, "k", lockmw.WithWait(time.Second))
				_ = held.Unlock()
			}
		}, ""},
		"a second holder": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(1, 2)
			_, _, _ = r.Lock(ctx, l, "k")
			_, _, _ = r.Lock(ctx, l, "k")
		}, "while token 1 is held"},
		"a second holder of another key": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(1, 2)
			_, _, _ = r.Lock(ctx, l, "k")
			_, _, _ = r.Lock(ctx, l, "other")
		}, ""},
		"a second holder after the first hold was taken away": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(1, 2)
			_, _, _ = r.Lock(ctx, l, "k")
			r.Forfeit()
			_, _, _ = r.Lock(ctx, l, "k")
		}, ""},
		"readers between two writers": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(1, 1, 1, 2)
			_, held, _ := r.Lock(ctx, l, "k")
			_ = held.Unlock()
			_, first, _ := r.Lock(ctx, recording.Reading(l), "k")
			_, next, _ := r.Lock(ctx, recording.Reading(l), "k")
			_, _ = first.Unlock(), next.Unlock()
			_, _, _ = r.Lock(ctx, l, "k")
		}, ""},
		"a reader during a writer": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(1, 1)
			_, _, _ = r.Lock(ctx, l, "k")
			_, _, _ = r.Lock(ctx, recording.Reading(l), "k")
		}, "while token 1 is held"},
		"a writer while the first of two readers still reads": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(1, 1, 2)
			_, _, _ = r.Lock(ctx, recording.Reading(l), "k")
			_, next, _ := r.Lock(ctx, recording.Reading(l), "k")
			_ = next.Unlock()
			_, _, _ = r.Lock(ctx, l, "k")
		}, "token 2 while token 1 is held"},
		"a reader with a smaller token than the last writer": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(1, 2, 1)
			for range 2 {
				_, held, _ := r.Lock(ctx, l, "k")
				_ = held.Unlock()
			}
			_, _, _ = r.Lock(ctx, recording.Reading(l), "k")
		}, "token 1 after 2"},
		"a writer with the readers' token": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(3, 3)
			_, held, _ := r.Lock(ctx, recording.Reading(l), "k")
			_ = held.Unlock()
			_, _, _ = r.Lock(ctx, l, "k")
		}, "token 3 after 3"},
		"a reader next to a downgraded hold": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(1, 1, 2)
			_, held, _ := r.Lock(ctx, l, "k")
			_ = held.Share(func() error { return nil })
			_, reader, _ := r.Lock(ctx, recording.Reading(l), "k")
			_, _ = reader.Unlock(), held.Unlock()
			_, _, _ = r.Lock(ctx, l, "k")
		}, ""},
		"a writer next to a downgraded hold": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(1, 2)
			_, held, _ := r.Lock(ctx, l, "k")
			_ = held.Share(func() error { return nil })
			_, _, _ = r.Lock(ctx, l, "k")
		}, "token 2 while token 1 is held"},
		"a reader that unlocks after a writer's grant": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(1, 1, 2)
			closing, stop := context.WithCancelCause(ctx)
			_, first, _ := r.Lock(closing, recording.Reading(l), "k")
			stop(lockmw.ErrClosed)
			_, next, _ := r.Lock(ctx, recording.Reading(l), "k") // compatible with the first
			_ = next.Unlock()
			_, _, _ = r.Lock(ctx, l, "k")
			_ = first.Unlock()
		}, "after another grant"},
		"a token that is used twice": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(7, 7)
			_, held, _ := r.Lock(ctx, l, "k")
			_ = held.Unlock()
			_, _, _ = r.Lock(ctx, l, "k")
		}, "token 7 after 7"},
		"a token that is used twice after the server lost its data": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(7, 7)
			_, held, _ := r.Lock(ctx, l, "k")
			r.Lose(false, func() int64 { return 8 })
			_ = held.Unlock()
			_, _, _ = r.Lock(ctx, l, "k")
		}, "token 7 after 7"},
		"a token from before the server lost its data": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(1, 10, 2)
			_, held, _ := r.Lock(ctx, l, "k")
			r.Lose(false, func() int64 { return 10 })
			_ = held.Unlock()
			_, held, _ = r.Lock(ctx, l, "k")
			_ = held.Unlock()
			_, _, _ = r.Lock(ctx, l, "k")
		}, "token 2 after 10"},
		"a token from before the server lost its data, passed on": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(1, 10, 2, 11)
			_, held, _ := r.Lock(ctx, l, "k")
			r.Lose(true, func() int64 { return 10 })
			_ = held.Unlock()
			_, held, _ = r.Lock(ctx, l, "k")
			_, _, _ = r.Lock(ctx, l, "k")
			_ = held.Unlock()
			_, _, _ = r.Lock(ctx, l, "k")
		}, ""},
		"a second holder after the server lost its data": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(1, 10)
			_, _, _ = r.Lock(ctx, l, "k")
			r.Lose(false, func() int64 { return 10 })
			_, _, _ = r.Lock(ctx, l, "k")
		}, ""},
		"two holders after the server lost its data": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(1, 10, 11)
			_, _, _ = r.Lock(ctx, l, "k")
			r.Lose(false, func() int64 { return 10 })
			_, _, _ = r.Lock(ctx, l, "k")
			_, _, _ = r.Lock(ctx, l, "k")
		}, "token 11 while token 10 is held"},
		"a process that passes a lost hold on twice": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(1, 10, 2)
			_, _, _ = r.Lock(ctx, l, "k")
			r.Lose(true, func() int64 { return 10 })
			_, _, _ = r.Lock(ctx, l, "k")
			_, _, _ = r.Lock(ctx, l, "k")
		}, "token 2 while token 1 is held"},
		"a superseded hold that unlocks without an error": {func(ctx context.Context, r *recording.Recorder) {
			l := grants(1, 2)
			closing, stop := context.WithCancelCause(ctx)
			_, held, _ := r.Lock(closing, l, "k")
			stop(lockmw.ErrClosed)
			_, _, _ = r.Lock(ctx, l, "k")
			_ = held.Unlock()
		}, "after another grant"},
		"a call that returns after its context has ended": {func(ctx context.Context, r *recording.Recorder) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, _, _ = r.Lock(ctx, refuses(2*time.Second, busy("k")), "k")
		}, "after its context had ended"},
		"a wait that is too long": {func(ctx context.Context, r *recording.Recorder) {
			_, _, _ = r.Lock(ctx, refuses(2*time.Second, busy("k")), "k", lockmw.WithWait(time.Second))
		}, "a wait of at most 1s took 2s"},
		"a wait that is too short": {func(ctx context.Context, r *recording.Recorder) {
			_, _, _ = r.Lock(ctx, refuses(time.Second, busy("k")), "k", lockmw.WithWait(2*time.Second))
		}, "gave up after 1s of a wait of 2s"},
		"an error of another kind": {func(ctx context.Context, r *recording.Recorder) {
			_, _, _ = r.Lock(ctx, refuses(0, errors.New("boom")), "k")
		}, "not an *Error of this key"},
		"an error of another key": {func(ctx context.Context, r *recording.Recorder) {
			_, _, _ = r.Lock(ctx, refuses(0, busy("other")), "k", lockmw.WithWait(0))
		}, "not an *Error of this key"},
		"a failed call with another context": {func(ctx context.Context, r *recording.Recorder) {
			l := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
				return context.WithoutCancel(ctx), nil, busy(key)
			})
			_, _, _ = r.Lock(ctx, l, "k", lockmw.WithWait(0))
		}, "another context"},
		"a context without the hold": {func(ctx context.Context, r *recording.Recorder) {
			inner := grants(1)
			l := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
				_, hold, err := inner.Lock(ctx, key)
				return ctx, hold, err
			})
			_, _, _ = r.Lock(ctx, l, "k")
		}, "does not carry the hold"},
		"a call that does not return": {func(ctx context.Context, r *recording.Recorder) {
			go func() { _, _, _ = r.Lock(ctx, refuses(time.Hour, busy("k")), "k") }()
			synctest.Wait()
		}, "1 calls have not returned"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := recording.NewRecorder(slack)
				test.run(t.Context(), r)
				got := r.Violations()
				switch {
				case test.want == "" && len(got) > 0:
					t.Errorf("found %q", got)
				case test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)):
					t.Errorf("found %q, want one with %q", got, test.want)
				}
				time.Sleep(time.Hour) // calls that still wait return before the bubble ends
			})
		})
	}
}

func TestAHoldOfThisProcessExcludesHoldsOfOthers(t *testing.T) {
	r := recording.NewRecorder(slack)
	r.KeepSpans()
	if _, _, err := r.Lock(t.Context(), grants(1), "k"); err != nil {
		t.Fatal(err)
	}
	now := judge.MachineNow()
	r.Report(nil, judge.Report{Event: judge.Granted, Key: "k", Token: 2, At: now, Deadline: now + time.Minute})
	if got := r.Violations(); len(got) != 1 {
		t.Errorf("found %q, want one violation", got)
	}
}
