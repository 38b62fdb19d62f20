package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

// A taker takes several keys, and its commands are counted.
type taker struct {
	*testing.T
	client *lockmw.Client
	wire   *redistest.Wire
	keys   []string
}

// withTaker runs a test with a taker whose Client knows that its server is one. It is in a bubble: a command whose answer is late
// is sent again.
func withTaker(t *testing.T, test func(k *taker)) {
	t.Helper()
	defer race.OneProcessor()()
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		s.NewMemory(t) // by which it is known
		k := &taker{T: t, wire: s.NewWire()}
		k.client = usertest.ClientOf(t, s.NewClient(t, k.wire.Use))
		for i := range 8 {
			k.keys = append(k.keys, fmt.Sprintf("item:%d", i))
		}
		for range 3 { // it gets to know the server, which gets to know the scripts
			k.commands(k.client, k.keys)
			synctest.Wait()
		}
		test(k)
	})
}

// commands takes and releases keys, and returns how many runs of scripts that took. A connection that is new for them sends
// more than that.
func (k *taker) commands(l lockmw.Locker, keys []string, opts ...lockmw.Option) int {
	k.Helper()
	k.wire.Record()
	_, holds, err := lockmw.LockAll(k.Context(), l, keys, opts...)
	if err != nil {
		k.Fatal(err)
	}
	usertest.Unlock(k, holds)
	return k.runs()
}

// runs is how many scripts have run since the wire was recorded.
func (k *taker) runs() int {
	return len(slices.DeleteFunc(k.wire.Sent(), func(c redistest.Command) bool { return !c.IsScript() }))
}

func TestFreeKeysAreTakenByOneCommand(t *testing.T) {
	withTaker(t, func(k *taker) {
		rw := rwlock.New(k.client)
		for name, c := range map[string]struct {
			l    lockmw.Locker
			keys []string
			opts []lockmw.Option
			want int
		}{
			"the fair lock":                {fairlock.New(k.client), k.keys, nil, 2},
			"the lock for writing":         {rw, k.keys, nil, 2},
			"the lock for reading":         {rw.RLocker(), k.keys, nil, 8 + 8}, // it may be shared
			"a try":                        {k.client, k.keys, []lockmw.Option{lockmw.WithWait(0)}, 2},
			"one key":                      {k.client, k.keys[:1], nil, 2},
			"a Locker that is not known":   {lockmw.LockerFunc(k.client.Lock), k.keys, nil, 8 + 1},
			"more keys than one run takes": {k.client, many(150), nil, 3 + 3},
		} {
			k.commands(c.l, c.keys, c.opts...) // the server knows the scripts from here on
			if got := k.commands(c.l, c.keys, c.opts...); got != c.want {
				k.Errorf("%s: %d commands, want %d: %q", name, got, c.want, k.wire.Sent())
			}
		}
	})
}

func many(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("many:%03d", i))
	}
	return keys
}

// A prefixing Locker embeds one of ours, and has a Lock of its own.
type prefixing[L lockmw.Locker] struct{ inner L }

func (p prefixing[L]) Lock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return p.inner.Lock(ctx, "tenant:"+key, opts...)
}

type (
	tenantClient struct {
		*lockmw.Client
		prefixing[*lockmw.Client]
	}
	tenantFair struct{ *fairlock.Locker }
)

func (l tenantClient) Lock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.prefixing.Lock(ctx, key, opts...)
}

func (l tenantFair) Lock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.Locker.Lock(ctx, "tenant:"+key, opts...)
}

func TestLockAllUsesTheLockOfATypeThatEmbedsALocker(t *testing.T) {
	withTaker(t, func(k *taker) {
		for _, l := range []lockmw.Locker{
			tenantClient{k.client, prefixing[*lockmw.Client]{k.client}}, &tenantFair{fairlock.New(k.client)}, tenantFair{fairlock.New(k.client)},
		} {
			_, holds, err := lockmw.LockAll(k.Context(), l, k.keys)
			if err != nil {
				k.Fatal(err)
			}
			for i, h := range holds {
				if want := "tenant:" + k.keys[i]; h.Key() != want {
					k.Errorf("%T: key %q, want %q", l, h.Key(), want)
				}
			}
			usertest.Unlock(k, holds)
		}
	})
}

// Observers are told of one attempt after the other, each with the context that carries the holds before it.
func TestObserversSeeEachKeyOfATrip(t *testing.T) {
	withTaker(t, func(k *taker) {
		var mu sync.Mutex
		var events []string
		note := func(event, key string) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, event+" "+key)
		}
		type mark struct{}
		keys := k.keys[:3]
		observer := lockmw.WithObserver(&lockmw.Observer{
			Start: func(ctx context.Context, a lockmw.Attempt) context.Context {
				note("start", a.Key)
				if i := slices.Index(keys, a.Key); i > 0 {
					if h, err := lockmw.Held(ctx, keys[i-1]); err != nil || h.Token() == 0 {
						k.Errorf("the attempt for %q begins without the lock before it: %v", a.Key, err)
					}
					if ctx.Value(mark{}) != keys[i-1] {
						k.Errorf("the attempt for %q does not continue the context of the hold before it", a.Key)
					}
				}
				return ctx
			},
			Acquired: func(ctx context.Context, a lockmw.Attempt, g lockmw.Acquisition) context.Context {
				note("acquired", a.Key)
				if g.Waited != time.Millisecond || g.Contended || g.Hold.Token() == 0 {
					k.Errorf("%q: %+v", a.Key, g)
				}
				return context.WithValue(ctx, mark{}, a.Key)
			},
			TraceParent: func(context.Context) string { return "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" },
			Released:    func(_ context.Context, a lockmw.Attempt, _ lockmw.Release) { note("released", a.Key) },
		})
		answer := k.wire.HoldReply("{" + keys[0] + "}")
		go func() {
			<-answer.Caught()
			time.Sleep(time.Millisecond)
			answer.Deliver()
		}()
		if n := k.commands(k.client, keys, observer); n != 2 {
			k.Errorf("%d commands, want 2", n)
		}
		want := []string{
			"start item:0", "acquired item:0", "start item:1", "acquired item:1", "start item:2", "acquired item:2",
			"released item:2", "released item:1", "released item:0",
		}
		if !slices.Equal(events, want) {
			k.Errorf("events are\n%q, want\n%q", events, want)
		}
	})
}

// A key that is busy is waited for, with nothing held that comes after it.
func TestABusyKeyIsWaitedForInTheOrderOfKeys(t *testing.T) {
	withTaker(t, func(k *taker) {
		_, inTheWay := usertest.Lock(k, k.Context(), k.client, k.keys[3])
		contended := make(chan string, 1)
		all := make(chan error, 1)
		go func() {
			_, holds, err := lockmw.LockAll(k.Context(), k.client, k.keys, lockmw.WithObserver(&lockmw.Observer{
				Contended: func(_ context.Context, a lockmw.Attempt, _ lockmw.Contention) { contended <- a.Key },
			}))
			all <- errors.Join(err, holds.Unlock())
		}()
		if key := <-contended; key != k.keys[3] {
			k.Errorf("it waits for %q", key)
		}
		for i, key := range k.keys {
			_, h, err := k.client.TryLock(k.Context(), key)
			if busy := errors.Is(err, lockmw.ErrBusy); busy != (i <= 3) || err != nil && !busy {
				k.Errorf("TryLock of %q: %v", key, err)
			}
			if err == nil {
				err = h.Unlock()
			}
			if err != nil && i > 3 {
				k.Error(err)
			}
		}
		usertest.Unlock(k, inTheWay)
		if err := <-all; err != nil {
			k.Error(err)
		}
	})
}

func TestHoldsOfSeveralClientsAreUnlockedTogether(t *testing.T) {
	withTaker(t, func(k *taker) {
		local := lockmw.NewLocal()
		var holds lockmw.Holds
		for i, l := range []lockmw.Locker{k.client, local, fairlock.New(k.client), k.client} {
			_, h := usertest.Lock(k, k.Context(), l, k.keys[i])
			holds = append(holds, h)
		}
		_, foreign := lockmw.NewHold(k.Context(), "foreign", 1, func(context.Context) error { return errors.New("no luck") })
		holds = append(holds, foreign, nil, holds[0])
		k.wire.Record()
		err := holds.Unlock()
		if !errors.Is(err, lockmw.ErrNotHeld) || !strings.Contains(err.Error(), "no luck") {
			k.Errorf("Unlock: %v", err)
		}
		if n := k.runs(); n != 1 {
			k.Errorf("%d commands for three locks on one server, want 1", n)
		}
		for i, l := range []lockmw.Locker{k.client, local, k.client, k.client} {
			if _, h, err := l.Lock(k.Context(), k.keys[i], lockmw.WithWait(0)); err != nil {
				k.Errorf("%q is not free: %v", k.keys[i], err)
			} else if err := h.Unlock(); err != nil {
				k.Error(err)
			}
		}
	})
}
