package transport_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/transport"
	"github.com/lockmw/go/lockmw"
)

// A countingHook counts scripts.
type countingHook struct{ seen atomic.Int64 }

func (h *countingHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *countingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.note(cmd)
		return next(ctx, cmd)
	}
}

func (h *countingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			h.note(cmd)
		}
		return next(ctx, cmds)
	}
}

func (h *countingHook) note(cmd redis.Cmder) {
	if cmd.Name() == "evalsha" || cmd.Name() == "eval" {
		h.seen.Add(1)
	}
}

func TestAllCommandsGoThroughTheHooksOfTheUsersClient(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		wire := s.NewWire()
		rdb := s.NewClient(t, wire.Use)
		wire.Record()
		sent := func() (n int64) {
			for _, c := range wire.Sent() {
				if c.IsScript() {
					n++
				}
			}
			return n
		}
		var before, between, late countingHook
		rdb.AddHook(&before)
		locks, other := newClient(t, rdb), newClient(t, rdb)
		rdb.AddHook(&between)
		pairs := func() {
			for range 20 {
				for _, l := range []*lockmw.Client{locks, other} {
					_, h, err := l.Lock(t.Context(), "item:1")
					if err == nil {
						err = h.Unlock()
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		pairs()
		if n := sent(); before.seen.Load() != n || between.seen.Load() != n {
			t.Errorf("the hooks saw %d and %d of %d commands", before.seen.Load(), between.seen.Load(), n)
		}
		earlier := before.seen.Load()
		rdb.AddHook(&late)
		_ = rdb.Conn().Close() // also assembles the hooks
		pairs()
		if late.seen.Load() != before.seen.Load()-earlier {
			t.Errorf("a hook that came late saw %d of %d commands", late.seen.Load(), before.seen.Load()-earlier)
		}
		// They wait no longer than without hooks.
		rdb.AddHook(new(countingHook))
		pairs()
		wire.Silence()
		returnsSoon(t, locks)
		wire.Restore()
	})
}

// So do commands to a Cluster, also through the hooks of its nodes.
func TestAllCommandsToAClusterGoThroughTheHooksOfTheUser(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 2, 0)
	rdb := c.Client(t)
	var before, late, atNodes countingHook
	rdb.AddHook(&before)
	rdb.OnNewNode(func(node *redis.Client) { node.AddHook(&atNodes) })
	locks := newClient(t, rdb)
	rdb.AddHook(&late)
	const pairs = 100
	var all sync.WaitGroup
	for i := range 8 { // so many that some gather
		all.Go(func() {
			for range pairs {
				_, h, err := locks.Lock(t.Context(), fmt.Sprint("item:", i))
				if err == nil {
					err = h.Unlock()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := locks.Close(); err != nil { // nothing is in flight when it returns
		t.Error(err)
	}
	if n := before.seen.Load(); n < 2*8*pairs || late.seen.Load() != n || atNodes.seen.Load() != n {
		t.Errorf("hooks saw %d and %d commands, hooks of nodes %d", n, late.seen.Load(), atNodes.seen.Load())
	}
}

// A future go-redis may always assemble hooks in a way that looks as if one had been added. Then the number of our hooks is
// limited: calls bypass the user's hooks, and keep their limits.
func TestTheNumberOfAddedHooksIsLimited(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		wire := s.NewWire()
		rdb := s.NewClient(t, wire.Use)
		locks := newClient(t, rdb)
		added := make(map[any]bool)
		for range 200 {
			_, h, err := locks.Lock(t.Context(), "item:1")
			if err == nil {
				err = h.Unlock()
			}
			if err != nil {
				t.Fatal(err)
			}
			added[transport.Overtake(rdb)] = true
		}
		if len(added) > 20 {
			t.Errorf("%d hooks were added", len(added))
		}
		rdb.AddHook(new(countingHook)) // assembles the hooks
		wire.Silence()
		defer wire.Restore()
		returnsSoon(t, locks)
	})
}

// returnsSoon fails the test if a call with a short deadline waits for a server that does not answer.
func returnsSoon(t *testing.T, locks *lockmw.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, _, err := locks.Lock(ctx, "item:2"); err == nil {
		t.Error("a silent server has granted a lock")
	}
	if took := time.Since(start); took > 2500*time.Millisecond { // go-redis waits for 3 s
		t.Errorf("the call has returned after %v", took)
	}
}

func newClient(t *testing.T, rdb redis.UniversalClient) *lockmw.Client {
	t.Helper()
	c, err := lockmw.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
