package script_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/transport"
)

// A quarantined sends operations like a client with a quarantine.
type quarantined struct {
	*scripttest.Driver
	scripts *script.Set
	sender  *transport.Sender
}

func newQuarantined(d *scripttest.Driver, length time.Duration) *quarantined {
	params := script.DefaultParams(true)
	params.Quarantine = script.NewQuarantine(d.Redis, script.NewLayout("lockmw", transport.Topology{}), length)
	q := &quarantined{d, script.NewSet(params), transport.NewSender(d.Redis, transport.Topology{Single: true}, time.Second, transport.Replicas{})}
	d.Cleanup(q.sender.Stop)
	return q
}

func (q *quarantined) send(op scripttest.Operation) *transport.Reply {
	q.Helper()
	answer := make(chan *transport.Reply, 1)
	q.sender.Start(op.Call(q.Context(), q.scripts, func(r *transport.Reply) { answer <- r }))
	return <-answer
}

func lockedAndAwaited(d *scripttest.Driver) {
	d.Lock("a1")
	d.Fair("b1")
}

// Every script that grants locks does so only on a trusted server, and does the rest of its work on any server.
func TestAServerThatIsNotTrustedGrantsNothing(t *testing.T) {
	server := redistest.Lent(t)
	for name, test := range map[string]struct {
		begin   func(d *scripttest.Driver)
		op      func(d *scripttest.Driver) scripttest.Operation
		refused bool   // the answer is an error
		granted string // the holder after that
	}{
		"acquire": {
			func(*scripttest.Driver) {},
			func(d *scripttest.Driver) scripttest.Operation { return scripttest.Acquire{ID: "b1"}.Operation(d) }, true, "b1",
		},
		"acquire with a predecessor": {
			func(d *scripttest.Driver) { d.Lock("a1") },
			func(d *scripttest.Driver) scripttest.Operation {
				return scripttest.Acquire{ID: "b1", Predecessor: "a1"}.Operation(d)
			}, true, "b1",
		},
		"poll": {
			func(d *scripttest.Driver) {
				d.Lock("a1")
				d.Fair("b1")
				d.Redis.Del(d.Context(), d.Keys.Holder())
			},
			func(d *scripttest.Driver) scripttest.Operation { return d.Polls(scripttest.Lease, "b1") }, true, "b1",
		},
		"release": {
			lockedAndAwaited,
			func(d *scripttest.Driver) scripttest.Operation {
				return &script.Release{Keys: d.Keys, ID: scripttest.ID("a1")}
			}, false, "b1",
		},
		"cancel": {
			lockedAndAwaited,
			func(d *scripttest.Driver) scripttest.Operation {
				return &script.Cancel{Keys: d.Keys, ID: "a1", Mark: true}
			}, false, "b1",
		},
		"disown": {
			lockedAndAwaited,
			func(d *scripttest.Driver) scripttest.Operation {
				return &script.Disown{Keys: d.Keys, Stem: "a", UpTo: 1}
			}, false, "b1",
		},
		"force": {
			lockedAndAwaited,
			func(d *scripttest.Driver) scripttest.Operation {
				return &script.Force{Keys: d.Keys, Token: d.Token(), Owner: "owner-a1"}
			}, false, "b1",
		},
		"downgrade": {
			func(d *scripttest.Driver) {
				d.Write("a1")
				d.Read("b1")
			},
			func(d *scripttest.Driver) scripttest.Operation {
				return &script.Downgrade{Keys: d.Keys, ID: scripttest.ID("a1")}
			}, false, "b1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, trusted := range []bool{false, true} {
				d := scripttest.New(t, server.NewClient(t), t.Name())
				test.begin(d)
				had := d.Look()
				length := time.Hour
				if trusted {
					length = 1 // ns: it ends immediately
				}
				q := newQuarantined(d, length)
				if trusted {
					q.send(scripttest.Acquire{ID: "z1", Try: true}.Operation(scripttest.New(t, d.Redis, "another"))) // which examines it
				}
				r := q.send(test.op(d))
				if refused := r.Err != nil; refused != (test.refused && !trusted) {
					t.Errorf("trusted %t: %v", trusted, r.Err)
				}
				if r.Err != nil && !strings.Contains(r.Err.Error(), "grants none for another 1h0m0s") && !strings.Contains(r.Err.Error(), "another 59m59") {
					t.Errorf("refused with %v", r.Err)
				}
				now := d.Look()
				_, reads := now.Readers()[test.granted]
				if granted := reads || now.HolderID() == test.granted; granted != trusted {
					t.Errorf("trusted %t: %s has the lock: %t\nbefore %v\nafter  %v", trusted, test.granted, granted, had, now)
				}
				if !test.refused && now.HolderID() == "a1" && !now.IsRead() {
					t.Errorf("trusted %t: it has not done its work: %v", trusted, now)
				}
				d.Redis.FlushDB(t.Context())
			}
		})
	}
}

// Tickets stay on a server that is not trusted.
func TestAPollKeepsTheQueueInAQuarantine(t *testing.T) {
	d := scripttest.New(t, redistest.Lent(t).NewClient(t), "item")
	d.Lock("a1")
	d.Fair("b1")
	const soon = 10 * time.Second
	d.Redis.PExpire(d.Context(), d.Keys.Tickets(), soon)
	q := newQuarantined(d, time.Hour)
	if r := q.send(d.Polls(scripttest.Lease, "b1")); r.Err == nil {
		t.Error("it is trusted")
	}
	if left := d.Look().Tickets.TTL; left <= soon {
		t.Errorf("the tickets are gone in %v", left)
	}
}

// A batch of acquires is refused as a whole, and a batch of releases grants nothing.
func TestABatchIsRefusedByAServerThatIsNotTrusted(t *testing.T) {
	d := scripttest.New(t, redistest.Lent(t).NewClient(t), "item")
	q := newQuarantined(d, time.Hour)
	q.sender.SetBatching(true)
	q.sender.Pause()
	const n = 5
	answers := make(chan *transport.Reply, n)
	for _, key := range scripttest.IDs("k", n) {
		keys := d.Sibling(key)
		op := scripttest.Acquire{ID: key, Mode: core.Exclusive}.Operation(d)
		op.Keys = &keys
		q.sender.Start(op.Call(t.Context(), q.scripts, func(r *transport.Reply) { answers <- r }))
	}
	q.sender.Resume()
	for range n {
		if r := <-answers; r.Err == nil {
			t.Error("an acquire of a batch was granted")
		}
	}
	if keys := d.Redis.Keys(t.Context(), "*").Val(); len(keys) != 1 || !strings.HasPrefix(keys[0], "lockmw:known:") {
		t.Errorf("the server has %q", keys)
	}
}

// This word makes go-redis give up a connection to a master that was deposed.
func TestAReplicaSaysThatItIsOneInAQuarantine(t *testing.T) {
	d := scripttest.New(t, redistest.Redis(t).NewClient(t), "item")
	if err := d.Redis.ReplicaOf(t.Context(), "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	q := newQuarantined(d, time.Hour)
	if r := q.send(scripttest.Acquire{ID: "b1"}.Operation(d)); r.Err == nil || !strings.HasPrefix(r.Err.Error(), "READONLY ") {
		t.Errorf("a replica answers %v", r.Err)
	}
}
