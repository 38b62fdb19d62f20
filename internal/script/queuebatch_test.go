package script_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/transport"
)

// A gathering contains calls to a server that are sent together.
type gathering struct {
	*testing.T
	sees   *redis.Client
	wire   *redistest.Wire
	sender *transport.Sender
	set    *script.Set
	layout script.Layout
	calls  []*transport.Call
	said   map[string]script.Acquired // by ids
}

func gather(t *testing.T, s *redistest.Server) *gathering {
	g := &gathering{
		T: t, sees: s.NewClient(t), wire: s.NewWire(), set: script.NewSet(script.DefaultParams(true)), layout: script.NewLayout("lockmw", transport.Topology{}),
		said: make(map[string]script.Acquired),
	}
	g.sender = transport.NewSender(s.NewClient(t, g.wire.Use), transport.Topology{Single: true}, time.Second, transport.Replicas{})
	t.Cleanup(g.sender.Stop)
	g.sender.SetBatching(true)
	return g
}

// comes adds a call in strict order.
func (g *gathering) comes(key, id string, edit ...func(a *script.Acquire)) {
	keys := g.layout.KeySet(key)
	a := script.Acquire{
		Keys: &keys, ID: scripttest.ID(id), Lease: time.Minute, Info: script.HolderInfo{Owner: "owner-" + id}, Mode: core.Fair,
		Inbox: "inbox", SecretOf: scripttest.SecretOf("p"), Tokens: 1, QueueTokens: 1, MayBatch: true,
	}
	for _, f := range edit {
		f(&a)
	}
	g.calls = append(g.calls, a.Call(context.Background(), g.set, func(r *transport.Reply) {
		got, err := script.AcquireAnswer(r, "")
		if err != nil {
			g.Errorf("%s: %v", id, err)
		}
		if _, more := g.said[id]; more {
			g.Errorf("%s has two answers", id)
		}
		g.said[id] = got
	}))
}

// leaves adds a release.
func (g *gathering) leaves(key, id string) {
	keys := g.layout.KeySet(key)
	l := script.Release{Keys: &keys, ID: scripttest.ID(id)}
	g.calls = append(g.calls, l.Call(context.Background(), g.set, func(r *transport.Reply) {
		if outcome, err := script.EndedAnswer(r); err != nil || outcome != script.Done {
			g.Errorf("release of %s: %v, %v", id, outcome, err)
		}
	}))
}

// goes sends the calls, and returns how often each script was sent.
func (g *gathering) goes() map[string]int {
	g.wire.Record()
	g.sender.RunBatch(g.Context(), g.calls)
	g.calls = nil
	sent := make(map[string]int)
	for _, c := range g.wire.Sent() {
		for name, s := range g.set.All() {
			if c.IsScript() && (c[1] == s.SHA || c[1] == s.Source) {
				sent[name]++
			}
		}
	}
	return sent
}

// holds makes a caller take a lock, and loads the scripts on the server.
func (g *gathering) holds(key, id string) {
	for _, name := range []string{"acquire", "release", "queue_batch"} {
		if err := g.sees.ScriptLoad(g.Context(), g.set.All()[name].Source).Err(); err != nil {
			g.Fatal(err)
		}
	}
	g.comes(key, id)
	if g.goes(); g.said[id].Outcome != script.Held {
		g.Fatalf("%s: %+v", id, g.said[id])
	}
}

// wantQueue checks the queue of a lock, and the answers of its callers.
func (g *gathering) wantQueue(key string, want ...string) {
	g.Helper()
	keys := g.layout.KeySet(key)
	if got := g.sees.ZRange(g.Context(), keys.Queue(), 0, -1).Val(); !slices.Equal(got, want) {
		g.Errorf("%s has the queue %v, want %v", key, got, want)
	}
	for i, id := range want {
		a, place := g.said[id], int64(g.sees.ZScore(g.Context(), keys.Queue(), id).Val())
		if a.Outcome != script.Queued || a.Wait.Position != i+1 || a.Place != place || len(a.Wait.Holders) != 1 {
			g.Errorf("%s of %s in place %d: %+v", id, key, place, a)
		}
		if ticket := g.sees.HGet(g.Context(), keys.Tickets(), id).Val(); !strings.Contains(ticket, " inbox owner-"+id+" ") {
			g.Errorf("%s has the ticket %q", id, ticket)
		}
	}
}

func wantSent(t *testing.T, got map[string]int, batches, acquires int) {
	t.Helper()
	if got["queue_batch"] != batches || got["acquire"] != acquires {
		t.Errorf("sent %v, want %d batches and %d acquires", got, batches, acquires)
	}
}

func TestCallersOfOneLockQueueTogether(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		g := gather(t, s)
		g.holds("a", "h")
		g.holds("b", "i")
		for n := range 3 {
			g.comes("a", fmt.Sprint("a", n))
			g.comes("b", fmt.Sprint("b", n), func(a *script.Acquire) { a.Mode = core.Write })
		}
		g.comes("a", "a3", func(a *script.Acquire) { a.Trace = "trace" })
		g.leaves("a", "h")
		wantSent(t, g.goes(), 2, 0)
		g.wantQueue("b", "b0", "b1", "b2")
		keys := g.layout.KeySet("a")
		// They were in the queue when the lock was released.
		if got := g.sees.HGet(t.Context(), keys.Holder(), "id").Val(); got != "a0" || g.said["a0"].Wait.Position != 1 {
			t.Errorf("%s has the lock, and a0 was told %+v", got, g.said["a0"])
		}
		if got := g.sees.HGet(t.Context(), keys.Tickets(), "a3").Val(); !strings.HasSuffix(got, " trace") {
			t.Errorf("the ticket of one with a trace is %q", got)
		}
		if got, want := g.sees.HGet(t.Context(), keys.Tickets(), "a3").Val(), " 1r:"+secretText("p")+" "; !strings.Contains(got, want) {
			t.Errorf("the ticket of a3 is %q, want that it has %q", got, want)
		}
	})
}

// Callers that cannot queue together queue one by one, in their order.
func TestWhoDoesNotQueueWithTheOthersKeepsTheOrder(t *testing.T) {
	for name, second := range map[string]func(a *script.Acquire){
		"all are alike":   nil,
		"another lease":   func(a *script.Acquire) { a.Lease = time.Hour },
		"one without run": func(a *script.Acquire) { a.MayBatch = false },
		"another mode":    func(a *script.Acquire) { a.Mode = core.Write },
		"another inbox":   func(a *script.Acquire) { a.Inbox = "other" },
		"a kept place":    func(a *script.Acquire) { a.Place, a.KeepPlace = "t", time.Minute },
		"the plain lock":  func(a *script.Acquire) { a.Mode = core.Exclusive },
	} {
		t.Run(name, func(t *testing.T) {
			g := gather(t, redistest.Mini(t))
			g.holds("b", "h")
			for n := range 5 {
				edit := func(*script.Acquire) {}
				if n == 1 && second != nil {
					edit = second
				}
				g.comes("b", fmt.Sprint("b", n), edit)
			}
			if sent := g.goes(); second == nil {
				wantSent(t, sent, 1, 0)
			} else {
				wantSent(t, sent, 0, 5)
			}
			for n := range 5 {
				if got := g.said[fmt.Sprint("b", n)]; got.Outcome != script.Queued || got.Wait.Position != n+1 {
					t.Errorf("number %d: %+v", n, got)
				}
			}
		})
	}
}

// Calls that are not plain never queue together, even if they are alike.
func TestOnlyPlainCallsQueueTogether(t *testing.T) {
	for name, edit := range map[string]func(a *script.Acquire){
		"tries":       func(a *script.Acquire) { a.QueueTokens = 0 },
		"kept places": func(a *script.Acquire) { a.Place, a.KeepPlace = a.ID.String(), time.Minute },
		"for several": func(a *script.Acquire) { a.Calls = 2 },
		"successors":  func(a *script.Acquire) { a.Predecessor = &script.Predecessor{ID: scripttest.ID("x")} },
		"votes":       func(a *script.Acquire) { a.Vote = new(core.Vote) },
	} {
		t.Run(name, func(t *testing.T) {
			g := gather(t, redistest.Mini(t))
			g.holds("b", "h")
			for n := range 3 {
				g.comes("b", fmt.Sprint("b", n), edit)
			}
			wantSent(t, g.goes(), 0, 3)
		})
	}
}

// Tickets that queue_batch.lua leaves are queued by acquire.lua, in the same order.
func TestALockThatIsNotBusyAsUsualIsQueuedForOneByOne(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		g := gather(t, s)
		g.holds("c", "h")
		g.holds("d", "i")
		keys := g.layout.KeySet("c")
		g.sees.Del(t.Context(), keys.Holder())
		over := g.layout.KeySet("d")
		g.sees.Set(t.Context(), over.Done("d1"), 1, time.Hour)
		for n := range 3 {
			g.comes("c", fmt.Sprint("c", n))
			g.comes("d", fmt.Sprint("d", n))
		}
		wantSent(t, g.goes(), 2, 6)
		if got := g.said["c0"].Outcome; got != script.Held {
			t.Errorf("the first one at a free lock: %v", got)
		}
		g.said["c0"] = script.Acquired{}
		g.wantQueue("c", "c1", "c2")
		if got := g.said["d1"].Outcome; got != script.Over {
			t.Errorf("an id that has ended: %v", got)
		}
		g.wantQueue("d", "d0", "d2")

		for _, id := range []string{"d0", "d2", "d3"} {
			g.comes("d", id)
			delete(g.said, id)
		}
		wantSent(t, g.goes(), 1, 3)
		g.wantQueue("d", "d0", "d2", "d3")
	})
}

func TestWithFullMemoryACrowdIsRefused(t *testing.T) {
	s := redistest.Lent(t)
	d := scripttest.New(t, s.NewClient(t), t.Name())
	d.FairOf("p", "a")
	before := d.Look()
	if err := d.Redis.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	keys := append(d.SixKeys(), d.Keys.Done("b"), d.Keys.Done("c"))
	_, err := d.Eval("queue_batch", keys, 30_000, d.Inbox("p"), "1r", "fair", "b", "owner-b", "", "c", "owner-c", "")
	if err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("queued without memory: %v", err)
	}
	for part, p := range d.Look().Parts() {
		if !p.Same(before.Parts()[part]) {
			t.Errorf("the %s was changed: %v", part, p)
		}
	}
}

func secretText(process string) string {
	secret := scripttest.Secret(process)
	return string(secret[:])
}
