package redlock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/redlock"
)

// client returns a Client of a server that is not there: nothing is sent.
func client(t *testing.T, addr string, opts ...lockmw.ClientOption) *lockmw.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = rdb.Close() })
	c, err := lockmw.New(rdb, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestWhatCannotWorkIsRefused(t *testing.T) {
	a, b, c := client(t, "127.0.0.1:1"), client(t, "127.0.0.1:2"), client(t, "127.0.0.1:3")
	closed := client(t, "127.0.0.1:4")
	_ = closed.Close()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:5"}})
	defer rdb.Close()
	cluster, err := lockmw.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	three := []*lockmw.Client{a, b, c}
	for name, tt := range map[string]struct {
		nodes []*lockmw.Client
		opts  []redlock.Option
		says  string
	}{
		"no nodes":             {nil, nil, "three or five"},
		"a nil node":           {[]*lockmw.Client{a, nil}, nil, "node 2 is nil"},
		"a closed node":        {[]*lockmw.Client{a, closed}, nil, "node 2 is closed"},
		"a node twice":         {[]*lockmw.Client{a, b, a}, nil, "nodes 1 and 3 are the same server"},
		"an address twice":     {[]*lockmw.Client{a, client(t, "127.0.0.1:1")}, nil, "nodes 1 and 2 are the same server"},
		"a Cluster":            {[]*lockmw.Client{a, cluster}, nil, "node 2 is a Cluster"},
		"another prefix":       {[]*lockmw.Client{a, client(t, "127.0.0.1:6", lockmw.WithPrefix("x"))}, nil, "the same WithPrefix"},
		"another lease":        {[]*lockmw.Client{a, client(t, "127.0.0.1:6", lockmw.WithLease(time.Second))}, nil, "the same WithLease"},
		"another quarantine":   {[]*lockmw.Client{a, client(t, "127.0.0.1:6", lockmw.WithQuarantine(time.Minute))}, nil, "the same WithQuarantine"},
		"too great a quorum":   {three, []redlock.Option{redlock.WithQuorum(4)}, "at most 3"},
		"too small a quorum":   {three, []redlock.Option{redlock.WithQuorum(1)}, "at least 2"},
		"no quorum":            {three, []redlock.Option{redlock.WithQuorum(0)}, "more than half"},
		"half of the nodes":    {[]*lockmw.Client{a, b}, []redlock.Option{redlock.WithQuorum(1)}, "at least 2"},
		"no time for a node":   {three, []redlock.Option{redlock.WithNodeTimeout(0)}, "from 1ms"},
		"a negative drift":     {three, []redlock.Option{redlock.WithDrift(-1)}, "from 0"},
		"delays that go down":  {three, []redlock.Option{redlock.WithRetryDelay(time.Second, time.Millisecond)}, "at least the first"},
		"a nil option":         {three, []redlock.Option{nil}, "nil Option"},
		"a lease out of range": {three, []redlock.Option{redlock.WithOptions(lockmw.WithLease(0))}, "lease of 0s"},
	} {
		l, err := redlock.New(tt.nodes, tt.opts...)
		if l != nil || !errors.Is(err, lockmw.ErrInvalidOption) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want ErrInvalidOption that says %q", name, err, tt.says)
		}
	}
	l, err := redlock.New(three, redlock.RequireAll(), redlock.WithoutToken(), redlock.WithDrift(time.Millisecond),
		redlock.WithNodeTimeout(time.Second), redlock.WithRetryDelay(time.Millisecond, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestAServerWithSeveralNamesHasOneVote(t *testing.T) {
	t.Parallel()
	s, other := redistest.Redis(t), redistest.Redis(t)
	behind := func(of ...*redistest.Server) *redlock.Locker {
		return newLocker(t, clients(t, of, func(i int, o *redis.Options) { of[i].NewProxy(t).Use(o) }))
	}
	_, _, err := behind(s, s, s).Lock(t.Context(), "item", lockmw.WithWait(patience))
	if !errors.Is(err, lockmw.ErrInvalidOption) || !strings.Contains(err.Error(), "the same server") {
		t.Errorf("Lock: %v, want ErrInvalidOption that says why", err)
	}
	first, second := behind(s, s, other), behind(s, s, other)
	_, hold := lock(t, first, "task")
	if _, _, err := second.TryLock(t.Context(), "task"); err == nil {
		t.Error("two have the lock")
	}
	unlock(t, hold)
}

func TestAllNodesAreRequired(t *testing.T) {
	t.Parallel()
	all := three(t)
	l := locker(t, all, redlock.RequireAll())
	_, hold := lock(t, l, "item")
	for _, s := range all {
		if s.NewClient(t).Exists(t.Context(), "lockmw:{item}").Val() != 1 {
			t.Error("a node has not granted it")
		}
	}
	unlock(t, hold)
	all[2].Kill()
	if _, _, err := l.Lock(t.Context(), "item", lockmw.WithWait(500*time.Millisecond)); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("Lock: %v, want ErrUnavailable", err)
	}
}

func TestWithoutToken(t *testing.T) {
	t.Parallel()
	l := locker(t, three(t), redlock.WithoutToken())
	_, hold := lock(t, l, "item")
	if hold.Token() != 0 {
		t.Errorf("the token is %d", hold.Token())
	}
	unlock(t, hold)
}

// Tokens rise over Lockers that have different clocks to go by, and nodes of which each misses some holds.
func TestTokensRiseThoughNodesComeAndGo(t *testing.T) {
	t.Parallel()
	all := three(t)
	last := int64(0)
	for round := range 6 {
		away := all[round%3]
		away.Pause(t)
		l := locker(t, all, redlock.WithNodeTimeout(100*time.Millisecond))
		for range 3 {
			_, hold := lock(t, l, "item")
			if hold.Token() <= last {
				t.Errorf("token %d after %d", hold.Token(), last)
			}
			last = hold.Token()
			_ = hold.Unlock()
		}
		away.Resume(t)
	}
}

// The counter of one node is ahead of the others'. What it gives is known by another one before the hold begins.
func TestTokensRiseThoughOneCounterIsAhead(t *testing.T) {
	t.Parallel()
	all := three(t)
	ahead := time.Now().Add(30 * time.Second).UnixMicro()
	if err := all[0].NewClient(t).Set(t.Context(), "lockmw:fence", ahead, 0).Err(); err != nil {
		t.Fatal(err)
	}
	all[2].Kill()
	_, hold := lock(t, locker(t, all), "item")
	token := hold.Token()
	if token <= ahead {
		t.Errorf("the token is %d, not above the counter %d", token, ahead)
	}
	unlock(t, hold)
	all[2].Restart(t)
	all[0].Kill()
	_, hold = lock(t, locker(t, all), "item")
	if hold.Token() <= token {
		t.Errorf("token %d after %d", hold.Token(), token)
	}
	unlock(t, hold)
}

func TestAHandOverNeedsNoPause(t *testing.T) {
	t.Parallel()
	all := three(t)
	a, b := locker(t, all), locker(t, all)
	var slow int
	const rounds = 30
	for range rounds {
		_, hold := lock(t, a, "item")
		waits := make(chan struct{})
		var once sync.Once
		got := make(chan time.Time)
		go func() {
			_, next, err := b.Lock(t.Context(), "item", lockmw.WithObserver(&lockmw.Observer{Contended: contended(func() { once.Do(func() { close(waits) }) })}))
			if err != nil {
				t.Error(err)
			}
			at := time.Now()
			_ = next.Unlock()
			got <- at
		}()
		<-waits
		released := time.Now()
		unlock(t, hold)
		if at := <-got; at.Sub(released) > 150*time.Millisecond {
			slow++
		}
	}
	if slow > rounds/3 { // a busy machine makes some of them slow
		t.Errorf("%d of %d hand-overs were slow", slow, rounds)
	}
}

// A try that comes while the nodes are asked for a call that can wait is answered with it: it is behind that call.
func TestATryBesideACallThatWaitsIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	all := three(t)
	l, proxies := proxied(t, all, redlock.WithNodeTimeout(time.Second)) // new connections take several round trips
	_, warm := lock(t, l, "warm")
	unlock(t, warm)
	_, held := lock(t, locker(t, all), "item")
	for _, p := range proxies {
		p.Delay(50*time.Millisecond, 0)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan struct{})
	go func() {
		defer close(waits)
		if _, _, err := l.Lock(ctx, "item"); !errors.Is(err, context.Canceled) {
			t.Errorf("Lock: %v", err)
		}
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var tries sync.WaitGroup
	for range 20 { // some of them while the nodes are asked
		<-tick.C
		tries.Go(func() {
			start := time.Now()
			if _, _, err := l.TryLock(t.Context(), "item"); !errors.Is(err, lockmw.ErrBusy) {
				t.Errorf("TryLock: %v, want ErrBusy", err)
			}
			if took := time.Since(start); took > time.Second {
				t.Errorf("a try took %v", took)
			}
		})
	}
	tries.Wait()
	cancel()
	<-waits
	unlock(t, held)
}
