package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/redlock"
)

// client returns a Client of a server that does not exist. No command is sent.
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

func TestInvalidNodesAndOptionsAreRefused(t *testing.T) {
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
	var short []*lockmw.Client
	for i := range 3 {
		short = append(short, client(t, fmt.Sprintf("127.0.0.1:%d", i+7), lockmw.WithQuarantine(10*time.Second), lockmw.WithLease(5*time.Second)))
	}
	for name, tt := range map[string]struct {
		nodes []*lockmw.Client
		opts  []redlock.Option
		says  string
	}{
		"no nodes":             {nil, nil, "three or five"},
		"a nil node":           {[]*lockmw.Client{a, nil}, nil, "node 2 is nil"},
		"a zero node":          {[]*lockmw.Client{a, new(lockmw.Client)}, nil, "node 2 was not made"},
		"a closed node":        {[]*lockmw.Client{a, closed}, nil, "node 2 is closed"},
		"a node twice":         {[]*lockmw.Client{a, b, a}, nil, "nodes 1 and 3 are the same server"},
		"an address twice":     {[]*lockmw.Client{a, client(t, "127.0.0.1:1")}, nil, "nodes 1 and 2 are the same server"},
		"a Cluster":            {[]*lockmw.Client{a, cluster}, nil, "node 2 is a Cluster"},
		"a proxy":              {[]*lockmw.Client{a, client(t, "127.0.0.1:6", lockmw.WithSlottedKeys())}, nil, "node 2 has WithSlottedKeys"},
		"another prefix":       {[]*lockmw.Client{a, client(t, "127.0.0.1:6", lockmw.WithPrefix("x"))}, nil, "the same WithPrefix"},
		"another lease":        {[]*lockmw.Client{a, client(t, "127.0.0.1:6", lockmw.WithLease(time.Second))}, nil, "the same WithLease"},
		"another quarantine":   {[]*lockmw.Client{a, client(t, "127.0.0.1:6", lockmw.WithQuarantine(time.Minute))}, nil, "the same WithQuarantine"},
		"too great a quorum":   {three, []redlock.Option{redlock.WithQuorum(4)}, "at most 3"},
		"too small a quorum":   {three, []redlock.Option{redlock.WithQuorum(1)}, "at least 2"},
		"no quorum":            {three, []redlock.Option{redlock.WithQuorum(0)}, "more than half"},
		"half of the nodes":    {[]*lockmw.Client{a, b}, []redlock.Option{redlock.WithQuorum(1)}, "at least 2"},
		"no time for a node":   {three, []redlock.Option{redlock.WithNodeTimeout(0)}, "from 1ms"},
		"a nil option":         {three, []redlock.Option{nil}, "nil Option"},
		"a long lease":         {short, []redlock.Option{redlock.WithOptions(lockmw.WithLease(time.Minute))}, "lease of 1m0s is too long: WithQuarantine(10s)"},
		"a long minimum hold":  {short, []redlock.Option{redlock.WithOptions(lockmw.WithMinHold(time.Minute))}, "hold of 1m0s is too long: WithQuarantine(10s)"},
		"a lease out of range": {three, []redlock.Option{redlock.WithOptions(lockmw.WithLease(0))}, "lease of 0s"},
	} {
		err := usertest.Recovered(func() { redlock.New(tt.nodes, tt.opts...) })
		if !errors.Is(err, lockmw.ErrInvalidOption) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want ErrInvalidOption that says %q", name, err, tt.says)
		}
	}
	l := redlock.New(three, redlock.WithQuorum(3), redlock.WithoutToken(), redlock.WithNodeTimeout(time.Second))
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestAServerWithSeveralNamesHasOneVote(t *testing.T) {
	inBubble(t, 2, func(b *bubble) {
		s, other := b.node(0), b.node(1)
		behind := func(of ...*redistest.Server) *redlock.Locker {
			return newLocker(b.T, clients(b.T, of, func(i int, o *redis.Options) {
				o.Addr = fmt.Sprintf("127.0.0.%d:0", 100+i) // another name; the Dialer connects to the server
				plainConns(o)
			}))
		}
		_, _, err := behind(s, s, s).Lock(b.Context(), "item", lockmw.WithWait(patience))
		if !errors.Is(err, lockmw.ErrInvalidOption) || !strings.Contains(err.Error(), "the same server") {
			b.Errorf("Lock: %v, want ErrInvalidOption that says why", err)
		}
		first, second := behind(s, s, other), behind(s, s, other)
		_, hold := lock(b.T, first, "task")
		if _, _, err := second.TryLock(b.Context(), "task"); err == nil {
			b.Error("two hold the lock")
		}
		usertest.Unlock(b, hold)
	})
}

func TestAllNodesAreRequired(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process(redlock.WithQuorum(3))
		_, hold := lock(b.T, p, "item")
		for node := range 3 {
			if !b.isHeld(node, "item") {
				b.Errorf("node %d has not granted it", node)
			}
		}
		usertest.Unlock(b, hold)
		p.wires[2].Cut()
		if _, _, err := p.Lock(b.Context(), "item", lockmw.WithWait(500*time.Millisecond)); !errors.Is(err, lockmw.ErrUnavailable) {
			b.Errorf("Lock: %v, want ErrUnavailable", err)
		}
	})
}

func TestWithoutToken(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		_, hold := lock(b.T, b.process(redlock.WithoutToken()), "item")
		if hold.Token() != 0 {
			b.Errorf("the token is %d", hold.Token())
		}
		usertest.Unlock(b, hold)
	})
}

// Tokens rise although Lockers go by different clocks, and each node misses some holds.
func TestTokensRiseWhileNodesFailAndComeBack(t *testing.T) {
	t.Parallel()
	all := three(t)
	last := int64(0)
	for round := range 6 {
		down := all[round%3]
		down.Pause(t)
		l := locker(t, all, redlock.WithNodeTimeout(100*time.Millisecond))
		for range 3 {
			_, hold := lock(t, l, "item")
			if hold.Token() <= last {
				t.Errorf("token %d after %d", hold.Token(), last)
			}
			last = hold.Token()
			_ = hold.Unlock()
		}
		down.Resume(t)
	}
}

func TestAHandOverNeedsNoPause(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p, q := b.process().warm(), b.process().warm()
		for i := range 10 {
			_, hold := lock(b.T, p, "item")
			next := q.call("item")
			released := time.Now()
			usertest.Unlock(b, hold)
			<-next.done
			if next.err != nil {
				b.Fatal(next.err)
			}
			if took := time.Since(released); took > 10*time.Millisecond {
				b.Errorf("hand-over %d took %v", i, took)
			}
			usertest.Unlock(b, next.hold)
		}
	})
}

// A try that comes while the nodes are asked for a call that may wait is behind that call, so it gets its answer with it.
func TestATryNextToAWaitingCallIsAnsweredImmediately(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p, q := b.process().warm(), b.process().warm()
		_, held := lock(b.T, q, "item")
		synctest.Wait() // until all nodes have it
		var asked []*redistest.Fault
		for _, w := range p.wires {
			asked = append(asked, w.HoldReply("{item}"))
		}
		waits := p.call("item")
		var tries []*calling
		for range 3 {
			tries = append(tries, p.call("item", lockmw.WithWait(0)))
		}
		for i, f := range asked {
			<-f.Caught()
			if i := slices.IndexFunc(tries, (*calling).returned); i >= 0 {
				b.Errorf("try %d has returned before the nodes have answered: %v", i, tries[i].err)
			}
			if i > 0 {
				f.Deliver()
				synctest.Wait()
			}
		}
		asked[0].Deliver() // calls for the key wait there
		synctest.Wait()
		for i, try := range tries {
			if !try.returned() || !errors.Is(try.err, lockmw.ErrBusy) {
				b.Errorf("try %d: returned %t, %v, want ErrBusy", i, try.returned(), try.err)
			}
		}
		usertest.Unlock(b, held)
		<-waits.done
		if waits.err != nil {
			b.Fatal(waits.err)
		}
		usertest.Unlock(b, waits.hold)
	})
}

func TestNilArgumentsAreNamed(t *testing.T) {
	var ctx context.Context
	a := client(t, "127.0.0.1:1")
	l := newLocker(t, []*lockmw.Client{a})
	usertest.Explains(t, map[string]func() error{
		"a nil Locker":               func() error { _, _, err := (*redlock.Locker)(nil).Lock(t.Context(), "k"); return err },
		"a zero Locker":              func() error { return new(redlock.Locker).Close() },
		"Lock, nil context":          func() error { _, _, err := l.Lock(ctx, "k"); return err },
		"Shutdown, nil context":      func() error { return l.Shutdown(ctx) },
		"CarryTokens, nil context":   func() error { return l.CarryTokens(ctx, a) },
		"CarryTokens of zero Locker": func() error { return new(redlock.Locker).CarryTokens(t.Context(), a) },
	})
}
