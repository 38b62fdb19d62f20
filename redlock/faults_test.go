package redlock_test

import (
	"context"
	"errors"
	"hash/fnv"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/redlock"
)

// proxied returns a Locker whose connections run through proxies, so that they can be disturbed.
func proxied(t *testing.T, all []*redistest.Server, opts ...redlock.Option) (*redlock.Locker, []*redistest.Proxy) {
	t.Helper()
	nodes, proxies := proxiedClients(t, all)
	return newLocker(t, nodes, opts...), proxies
}

func proxiedClients(t *testing.T, all []*redistest.Server, opts ...lockmw.ClientOption) (nodes []*lockmw.Client, proxies []*redistest.Proxy) {
	t.Helper()
	for _, s := range all {
		proxies = append(proxies, s.NewProxy(t))
	}
	return clients(t, all, func(i int, o *redis.Options) { proxies[i].Use(o) }, opts...), proxies
}

func TestAMinorityThatFailsStopsNothing(t *testing.T) {
	suite.NeedsFull(t, "a lease has to pass")
	t.Parallel()
	for name, fail := range map[string]func(t *testing.T, s *redistest.Server, p *redistest.Proxy){
		"killed": func(_ *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Kill() },
		"stopped": func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) {
			s.Pause(t)
			t.Cleanup(func() { s.Resume(t) })
		},
		"half-open": func(_ *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Swallow() },
		"slow": func(_ *testing.T, _ *redistest.Server, p *redistest.Proxy) {
			p.Delay(700*time.Millisecond, 0)
		},
		"unreachable": func(_ *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Off() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := three(t)
			l, proxies := proxied(t, all)
			const lease = 10 * time.Second // which a machine that is busy with everything leaves to live
			ctx, held := lock(t, l, "held", lockmw.WithLease(lease))
			fail(t, all[1], proxies[1])
			began, n := time.Now(), 0
			for time.Since(began) < lease+lease/2 {
				_, hold := lock(t, l, "item")
				unlock(t, hold)
				if n++; n > 1 {
					break
				}
			}
			select {
			case <-ctx.Done():
				t.Errorf("the hold has ended: %v", context.Cause(ctx))
			case <-time.After(lease + lease/2 - time.Since(began)):
			}
			_ = held.Unlock() // the node that failed may have the hold, and not confirm
			_, again := lock(t, l, "held")
			_ = again.Unlock()
		})
	}
}

func TestAMajorityThatIsGoneIsToldInTime(t *testing.T) {
	suite.NeedsFull(t, "leases have to end")
	t.Parallel()
	all := three(t)
	l := locker(t, all)
	const lease = 3 * time.Second
	ctx, held := lock(t, l, "held", lockmw.WithLease(lease))
	all[0].Kill()
	all[2].Kill()
	start := time.Now()
	if _, _, err := l.Lock(t.Context(), "item", lockmw.WithWait(500*time.Millisecond)); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("Lock: %v, want ErrUnavailable", err)
	}
	if _, _, err := l.TryLock(t.Context(), "item"); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("TryLock: %v, want ErrUnavailable", err)
	}
	var deadline time.Time // just before the end
	eventually(t, "the hold ends", func() bool {
		if ctx.Err() != nil {
			return true
		}
		deadline = held.Deadline()
		return false
	})
	if deadline.IsZero() {
		t.Fatal("the hold has ended before anybody looked")
	}
	if early := time.Until(deadline); early > lease/4 {
		t.Errorf("the hold has ended %v before its deadline", early)
	}
	if after := deadline.Sub(start); after > lease {
		t.Errorf("the hold has ended %v after the nodes", after)
	}
	if cause := context.Cause(ctx); !errors.Is(cause, lockmw.ErrLost) {
		t.Errorf("the cause is %v, want ErrLost", cause)
	}
	if err := held.Unlock(); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("Unlock: %v, want ErrLost", err)
	}
}

func TestANodeThatComesBackTakesPartInAHold(t *testing.T) {
	suite.NeedsFull(t, "nodes have to come back")
	t.Parallel()
	all := three(t)
	l := locker(t, all, redlock.WithNodeTimeout(50*time.Millisecond))
	all[2].Kill()
	_, held := lock(t, l, "item")
	for began := time.Now(); time.Since(began) < 200*time.Millisecond; { // what was asked before has come to nothing
		_, other := lock(t, l, "other")
		unlock(t, other)
	}
	all[2].Restart(t)
	rdb := all[2].NewClient(t)
	eventually(t, "the node has the hold", func() bool { return rdb.Exists(t.Context(), "lockmw:{item}").Val() == 1 })
	eventually(t, "it knows the token", func() bool {
		n, _ := rdb.Get(t.Context(), "lockmw:fence").Int64()
		return n >= held.Token()
	})
	all[0].Kill() // and now it counts
	eventually(t, "the hold is renewed there", func() bool { return rdb.PTTL(t.Context(), "lockmw:{item}").Val() > 0 })
	unlock(t, held)
}

// Two nodes forget a hold, one after the other.
func restarted(t *testing.T, lease time.Duration, opts ...lockmw.ClientOption) (both bool) {
	t.Helper()
	all := three(t)
	opts = append(opts, lockmw.WithLease(lease))
	nodes, proxies := proxiedClients(t, all, opts...)
	a, b := newLocker(t, nodes), newLocker(t, clients(t, all, nil, opts...))
	_, warm := lock(t, b, "warm")
	unlock(t, warm)
	ctx, held := lock(t, a, "item", lockmw.WithFixedLease(lease))
	for _, p := range proxies { // else it tells a node that has come back
		p.Off()
	}
	for _, s := range all[:2] {
		s.Kill()
		s.Restart(t)
	}
	_, second, err := b.Lock(t.Context(), "item", lockmw.WithWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	both = ctx.Err() == nil
	for _, p := range proxies {
		p.Restore()
	}
	unlock(t, second)
	_ = held.Unlock()
	return both
}

func TestNodesThatForgetAHoldGrantItAgain(t *testing.T) {
	t.Parallel()
	if !restarted(t, 10*time.Minute) { // which does not end meanwhile
		t.Error("no two holders are seen: the promise could be greater")
	}
}

func TestWithAQuarantineNodesThatForgetGrantNothing(t *testing.T) {
	suite.NeedsFull(t, "a quarantine takes seconds")
	t.Parallel()
	for range 5 {
		if restarted(t, 2*time.Second, lockmw.WithQuarantine(4*time.Second)) {
			t.Error("two have the lock")
		}
	}
}

// firstAt returns a key whose calls wait at that one of n nodes.
func firstAt(node uint32, n int) string {
	for i := 0; ; i++ {
		key := lockmw.Key("item", strconv.Itoa(i))
		h := fnv.New32a()
		_, _ = h.Write([]byte(key))
		if h.Sum32()%uint32(n) == node {
			return key
		}
	}
}

func TestCallersWhoReachAMinorityStopNobody(t *testing.T) {
	suite.NeedsFull(t, "silent nodes are waited for")
	t.Parallel()
	all := three(t)
	far, proxies := proxied(t, all, redlock.WithQuorum(len(all))) // so that each node is needed
	proxies[1].Swallow()                                          // so that it takes time to find out
	proxies[2].Swallow()
	near := locker(t, all, redlock.WithQuorum(len(all)))
	key := firstAt(0, len(all))
	alone := series(t, near, key)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	const callers = 8
	for range callers {
		go func() {
			defer func() { ended <- struct{}{} }()
			for ctx.Err() == nil {
				if _, hold, err := far.Lock(ctx, key, lockmw.WithWait(time.Second)); err == nil {
					t.Error("who reaches one node has the lock")
					_ = hold.Unlock()
				}
			}
		}()
	}
	defer func() {
		cancel()
		for range callers {
			<-ended
		}
	}()
	beside := series(t, near, key)
	t.Logf("alone %v, beside %v", alone, beside)
	if beside > 5*alone+30*time.Second { // those who cannot have it wait for a second each
		t.Errorf("a series of calls takes %v beside callers who cannot have the lock, and %v alone", beside, alone)
	}
}

func TestTheLockOfAProcessThatIsGoneIsHadWhenItsLeaseIsOver(t *testing.T) {
	suite.NeedsFull(t, "leases have to end")
	t.Parallel()
	all := three(t)
	gone, proxies := proxied(t, all)
	const lease = time.Second
	_, held := lock(t, gone, "item", lockmw.WithLease(lease))
	for _, p := range proxies {
		p.Swallow() // as if it were dead: nothing is renewed, and nobody says so
	}
	start := time.Now()
	_, hold := lock(t, locker(t, all), "item")
	if hold.Token() <= held.Token() || time.Now().Before(held.Deadline()) {
		t.Errorf("token %d after %d, %v after the loss", hold.Token(), held.Token(), time.Since(start))
	}
	unlock(t, hold)
}

// series returns how long some calls take, one after the other.
func series(t *testing.T, l lockmw.Locker, key string) time.Duration {
	t.Helper()
	start := time.Now()
	for range 300 {
		_, hold := lock(t, l, key)
		_ = hold.Unlock()
	}
	return time.Since(start)
}
