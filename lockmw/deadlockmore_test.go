package lockmw_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/waitlimit"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

// The one to end has been waiting for longest, in another process, and is told to look.
func TestTheYoungestIsEndedWhoeverClosesTheCircle(t *testing.T) {
	onEach(t, func(t *testing.T, locker func(opts ...lockmw.Option) lockmw.Locker) {
		old := nest(t, locker()).has("a")
		time.Sleep(10 * time.Millisecond)
		young := nest(t, locker()).has("b").wants("a")
		time.Sleep(5 * time.Second)
		old.wants("b")
		for _, err := range ends(t, 1, 2*time.Second, old, young) {
			if d, _ := lockmw.DeadlockOf(err); d.Circle[0].Wants != "a" || d.Circle[0].Waited < 5*time.Second {
				t.Errorf("%v", err)
			}
		}
	})
}

func TestWhoDetectsNoDeadlocksIsNotEnded(t *testing.T) {
	onEach(t, func(t *testing.T, locker func(opts ...lockmw.Option) lockmw.Locker) {
		old := nest(t, locker()).has("a")
		time.Sleep(10 * time.Millisecond)
		young := nest(t, locker(lockmw.WithDeadlockDetection(0))).has("b").wants("a")
		old.wants("b")
		for _, err := range ends(t, 1, 2*time.Second, old, young) {
			if d, _ := lockmw.DeadlockOf(err); d.Circle[0].Wants != "b" {
				t.Errorf("%v", err)
			}
		}
		off := lockmw.WithDeadlockDetection(0)
		one := nest(t, locker(off)).has("c")
		two := nest(t, locker(off)).has("d").wants("c", lockmw.WithWait(time.Minute))
		one.wants("d", lockmw.WithWait(2*time.Minute))
		time.Sleep(time.Minute - 2*time.Second)
		synctest.Wait()
		if len(one.err)+len(two.err) > 0 {
			t.Error("a wait was ended although detection is off")
		}
		if err := <-two.err; !errors.Is(err, lockmw.ErrBusy) || errors.Is(err, lockmw.ErrDeadlock) {
			t.Errorf("the wait ended with %v", err)
		}
		ends(t, 0, time.Second, one)
	})
}

// A wait that ends soon by itself is not part of a deadlock. At the check it still has 1.9 s to go.
func TestWhatEndsByItselfIsNoDeadlock(t *testing.T) {
	const late = 2900 * time.Millisecond
	type test struct {
		name string
		has  []lockmw.Option
		edit func(n *nester)
		want []lockmw.Option
	}
	onEach(t, func(t *testing.T, locker func(opts ...lockmw.Option) lockmw.Locker) {
		for _, test := range []test{
			{name: "its wait ends", want: []lockmw.Option{lockmw.WithWait(late)}},
			{name: "its context ends", edit: func(n *nester) { timed(n, late) }},
			{name: "a middleware ends it", edit: func(n *nester) {
				ctx, limit := waitlimit.Start(n.ctx, late)
				n.ctx = ctx
				t.Cleanup(limit.Release)
			}},
			{name: "a hold expires", has: []lockmw.Option{lockmw.WithFixedLease(late)}},
			{name: "a hold has lasted so long", has: []lockmw.Option{lockmw.WithMaxHold(late)}},
		} {
			other := nest(t, locker()).has("b")
			n := nest(t, locker()).has("a", test.has...)
			if test.edit != nil {
				test.edit(n)
			}
			n.wants("b", test.want...)
			other.wants("a")
			time.Sleep(late - 100*time.Millisecond)
			synctest.Wait()
			if len(n.err)+len(other.err) > 0 {
				t.Errorf("%s: a call no longer waits", test.name)
			}
			errs := errors.Join(<-n.err, <-other.err)
			if errs == nil || errors.Is(errs, lockmw.ErrDeadlock) {
				t.Errorf("%s: %v", test.name, errs)
			}
		}
	})
}

func timed(n *nester, d time.Duration) *nester {
	var cancel context.CancelFunc
	n.ctx, cancel = context.WithTimeout(n.ctx, d)
	n.t.Cleanup(cancel)
	return n
}

// The holder works, or waits only for a holder that works.
func TestAHolderThatGoesOnIsNoDeadlock(t *testing.T) {
	onEach(t, func(t *testing.T, locker func(opts ...lockmw.Option) lockmw.Locker) {
		busy := nest(t, locker()).has("a")
		next := nest(t, locker()).has("b").wants("a")
		last := nest(t, locker()).has("c").wants("b")
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(next.err)+len(last.err) > 0 {
			t.Error("a wait has ended")
		}
		busy.wants("d")
		ends(t, 0, time.Second, busy, next, last)
	})
}

func TestACallerThatWaitsForHimselfIsEnded(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		rdb := s.NewClient(t)
		var clients []*lockmw.Client
		for range 2 { // which do not re-enter one another's locks
			c := usertest.ClientOf(t, rdb)
			clients = append(clients, c)
		}
		ends(t, 1, 2*time.Second, nest(t, clients[0]).has("a").wantsBy(clients[1], "a"))
	})
}

func TestTwoGoroutinesOfAnOwnerAreInACircle(t *testing.T) {
	onEach(t, func(t *testing.T, locker func(opts ...lockmw.Option) lockmw.Locker) {
		l := locker()
		root := nest(t, l).has("root")
		one, two := nest(t, l), nest(t, l)
		one.ctx, two.ctx = root.ctx, root.ctx
		one.has("a")
		time.Sleep(10 * time.Millisecond)
		two.has("b").wants("a")
		one.wants("b")
		ends(t, 1, 2*time.Second, one, two)
		usertest.Unlock(t, root.holds)
	})
}

// Readers hold the key, and one of them waits for a lock whose holder also wants to read, behind a writer that waits for them.
func TestAReaderBehindAWriterIsInACircle(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		test := func(wait time.Duration, deadlocks int) {
			one, two, three := rwlock.New(process(t, s)), rwlock.New(process(t, s)), rwlock.New(process(t, s))
			reader := nest(t, one.RLocker()).has("k")
			time.Sleep(10 * time.Millisecond)
			holder := nest(t, two).has("l")
			writer := nest(t, three)
			writer.wants("k", lockmw.WithWait(wait))
			reader.wantsBy(one, "l")
			holder.wantsBy(two.RLocker(), "k")
			if deadlocks == 0 {
				if err := <-writer.err; !errors.Is(err, lockmw.ErrBusy) {
					t.Errorf("the writer: %v", err)
				}
				ends(t, 0, 3*time.Second, reader, holder)
				return
			}
			ends(t, deadlocks, 2*time.Second, reader, holder, writer)
		}
		test(time.Hour, 1)
		test(2900*time.Millisecond, 0) // the writer goes away by itself
	})
}

func TestThreeReadersAndAWriterInACircle(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		locker := rwlock.New(process(t, s))
		one, two := nest(t, locker.RLocker()).has("k"), nest(t, locker.RLocker()).has("k")
		other := rwlock.New(process(t, s))
		writer := nest(t, other).has("l")
		one.wantsBy(locker, "l")
		writer.wants("k")
		time.Sleep(500 * time.Millisecond)
		two.wantsBy(locker, "free") // the readers share a lease, and this one ends
		ends(t, 1, 2*time.Second, one, two, writer)
	})
}

// A process that is gone answers nothing, and its lease ends.
func TestAHolderThatIsGoneIsNoDeadlock(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		var cut atomic.Bool
		rdb := s.NewClient(t, func(o *redis.Options) {
			dial := o.Dialer
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if cut.Load() {
					return nil, errors.New("cut off")
				}
				return dial(ctx, network, addr)
			}
		})
		rdb.AddHook(redistest.Hook(func(_ context.Context, _ []redis.Cmder, send func() error) error {
			if cut.Load() {
				return errors.New("cut off")
			}
			return send()
		}))
		gone := usertest.ClientOf(t, rdb, lockmw.AsOwnProcess())
		dead := nest(t, gone).has("a", lockmw.WithLease(10*time.Second))
		time.Sleep(10 * time.Millisecond)
		lives := nest(t, process(t, s)).has("b")
		dead.wants("b", lockmw.WithDeadlockDetection(time.Hour))
		time.Sleep(2 * time.Second)
		cut.Store(true)
		lives.wants("a", lockmw.WithDeadlockDetection(2*time.Second))
		if err := <-lives.err; err != nil {
			t.Errorf("who lives: %v", err)
		}
		cut.Store(false)
		if err := <-dead.err; errors.Is(err, lockmw.ErrDeadlock) {
			t.Errorf("who was gone: %v", err)
		}
	})
}

func TestTheErrorOfADeadlockSaysWhoWaitsForWhom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := lockmw.NewLocal()
		old := nest(t, local).has("order:1", lockmw.WithLabel("req-1"))
		time.Sleep(10 * time.Millisecond)
		young := nest(t, local).has("user:1", lockmw.WithLabel("req-2")).wants("order:1", lockmw.WithLabel("req-2"))
		old.wants("user:1", lockmw.WithLabel("req-1"))
		err := ends(t, 1, 2*time.Second, old, young)[0]
		text, _, _ := strings.Cut(err.Error(), "\n")
		want := `lockmw: lock "order:1" for req-2 after 1s: deadlock: the holder waits for a lock that this call holds: ` +
			`local (req-2) has held "user:1" for 1s and has waited for "order:1" for 1s; ` +
			`local (req-1) has held "order:1" for 1.01s and has waited for "user:1" for 1s, held by req-1`
		if text != want {
			t.Errorf("it says\n%s\nwant\n%s", text, want)
		}
		var e *lockmw.Error
		if !errors.As(err, &e) || e.ErrorType() != "lock_deadlock" || e.Waited != time.Second {
			t.Errorf("%+v", e)
		}
		if _, ok := lockmw.DeadlockOf(lockmw.ErrBusy); ok {
			t.Error("a busy lock is a deadlock")
		}
	})
}
