package engine

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

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
)

// A rig is an engine that runs in bulk whatever gathers, on each server.
type rig struct {
	*testing.T
	e    *Engine
	s    *redistest.Server
	wire *redistest.Wire
	rdb  *redis.Client // sees the server
}

func onRig(t *testing.T, test func(r *rig)) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) { test(newRig(t, s)) })
}

// inRigBubble runs a test on the embedded server only, where no answer is late: a command that is not answered within 30 ms is
// sent again.
func inRigBubble(t *testing.T, test func(r *rig)) {
	race.Parallel(t)
	defer race.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) }) // until go-redis' goroutines have ended
		test(newRig(t, redistest.Piped(t)))
	})
}

func newRig(t *testing.T, s *redistest.Server, edit ...func(*redis.Options)) *rig {
	r := &rig{T: t, s: s, wire: s.NewWire(), rdb: s.NewClient(t)}
	r.e = newEngine(t, s.NewClient(t, append(edit, r.wire.Use)...))
	r.e.probe.Disable()
	r.e.sender.SetBatching(true)
	return r
}

// A result is what came of asking for a key.
type result struct {
	key       string
	requester *requester
	grant     *hold
	err       error
}

// gather lets n calls gather that do makes, and sends them in one batch.
func (r *rig) gather(n int, do func()) {
	r.Helper()
	s := r.e.sender
	s.WaitIdle(soon) // what ends would take calls with it
	s.Pause()
	do()
	eventually(r.T, "not all calls have gathered", func() bool { return s.Gathered() == n })
	s.Resume()
}

// acquire requests all keys in one batch. Calls for busy keys wait.
func (r *rig) acquire(keys ...string) (results chan result) {
	r.Helper()
	results = make(chan result, len(keys))
	r.gather(len(keys), func() {
		for _, key := range keys {
			a := newRequester(key)
			go func() {
				ctx, cancel := context.WithTimeout(r.Context(), 2*soon)
				defer cancel()
				g, err := r.e.Acquire(ctx, &a.Request)
				res := result{key: key, requester: a, err: err}
				res.grant, _ = g.(*hold)
				results <- res
			}()
		}
	})
	return results
}

// granted takes n grants, in the order of their tokens.
func (r *rig) granted(results <-chan result, n int) []result {
	r.Helper()
	var all []result
	for range n {
		select {
		case res := <-results:
			if res.err != nil {
				r.Fatalf("%s: %v", res.key, res.err)
			}
			all = append(all, res)
		case <-time.After(soon):
			r.Fatalf("%d of %d are granted", len(all), n)
		}
	}
	slices.SortFunc(all, func(a, b result) int { return int(a.grant.Token() - b.grant.Token()) })
	return all
}

// release releases all in one batch. Those of the keys that were lost must say so.
func (r *rig) release(all []result, lost ...string) {
	r.Helper()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	r.gather(len(all), func() {
		for i, res := range all {
			wg.Go(func() { _, errs[i] = res.grant.Release(soon) })
		}
	})
	wg.Wait()
	for i, res := range all {
		if want := slices.Contains(lost, res.key); errors.Is(errs[i], core.ErrLost) != want || errs[i] != nil && !want {
			r.Errorf("Release of %s: %v; want that it is lost: %t", res.key, errs[i], want)
		}
	}
}

func (r *rig) keys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("item:%d", i)
	}
	return keys
}

// ran counts the runs of a script since wire.Record.
func (r *rig) ran(name string) (n int) {
	s := r.e.scripts.All()[name]
	for _, c := range r.wire.Sent() {
		if c.IsScript() && (c[1] == s.SHA || c[1] == s.Source) {
			n++
		}
	}
	return n
}

// left returns the keys on the server, apart from the fencing counter and done marks.
func (r *rig) left() []string {
	r.Helper()
	keys, err := redistest.Keys(r.Context(), r.rdb, "lockmw")
	if err != nil {
		r.Fatal(err)
	}
	return slices.DeleteFunc(keys, func(key string) bool {
		return key == "lockmw:fence" || key == "lockmw:alive" || strings.Contains(key, "}:done:")
	})
}

// warm makes the server know a token, without which a batch grants one lock only.
func (r *rig) warm() {
	r.Helper()
	h := newRequester("warm").acquire(r.T, r.e)
	if _, err := h.Release(soon); err != nil {
		r.Fatal(err)
	}
	scripttest.PassToken(r, h.Token())
}
