package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
)

// rig has the bubble's engine take several locks in one m.
func (b *bubble) rig() *rig {
	b.e.sender.SetBatching(true)
	return &rig{T: b.T, e: b.e, s: b.s, wire: b.wire, rdb: b.rdb}
}

func tries(r *core.Request) { r.Wait = 0 }

// A multi-acquire counts if enough replicas acknowledge it, by one WAIT for all of its locks. Otherwise it takes nothing.
func TestAMultiAcquireThatTooFewReplicasHaveTakesNothing(t *testing.T) {
	inReplicatedBubble(t, func(b *replicatedBubble) {
		r := b.rig()
		takes := func(when string) {
			b.Helper()
			p := r.party(r.keys(3))
			waits := b.replicas.waits.Load()
			holds := p.takes()
			if n := b.replicas.waits.Load() - waits; n != 1 {
				b.Errorf("%s: replicas are waited for %d times", when, n)
			}
			p.releases(holds)
			r.isEmpty()
		}
		p := r.party(r.keys(3)) // the server does not know the scripts yet
		p.releases(p.takes())
		takes("with both replicas")

		b.replicas.have.Store(1)
		r.party(r.keys(3)).isRefused("a call that waits")
		r.isEmpty()
		_, err := b.e.AcquireAll(b.Context(), r.party(r.keys(3), tries).requests)
		b.wantFew("a try", err)
		r.isEmpty()

		b.replicas.have.Store(2)
		takes("with both replicas again")
		holds := p.takes()
		b.replicas.have.Store(0)
		p.releases(holds) // which needs none
		r.isEmpty()
	})
}

// A server that may have lost locks grants no m.
func TestAMultiAcquireWaitsForAQuarantine(t *testing.T) {
	const lease, quarantine = 3 * time.Second, 4 * time.Second
	inBubble(t, func(b *bubble) {
		memory := b.s.NewMemory(b)
		_ = b.e.Close()
		cfg := DefaultConfig()
		cfg.Logger, cfg.Quarantine = slog.New(slog.DiscardHandler), quarantine
		e, err := New(b.s.NewClient(b.T, b.wire.Use), cfg)
		if err != nil {
			b.Fatal(err)
		}
		e.probe.Disable()
		b.e = e
		r := b.rig()
		short := func(r *core.Request) { r.Lease = lease }
		for _, when := range []string{"a new server", "a server that was restarted without its data"} {
			lost := time.Now()
			memory.Lose()
			_, err := e.AcquireAll(b.Context(), r.party(r.keys(3), short, tries).requests)
			if !errors.Is(err, core.ErrUnavailable) {
				b.Errorf("%s, a try: %v, want ErrUnavailable", when, err)
			}
			if left := r.left(); len(left) > 1 { // since when it is known
				b.Errorf("%s: a refused multi-acquire has left %q", when, left)
			}
			time.Sleep(quarantine - time.Since(lost) + 100*time.Millisecond)
			p := r.party(r.keys(3), short)
			holds := p.takes()
			p.releases(holds)
		}
	})
}

// In a Cluster only keys in one slot are taken together.
func TestKeysInDifferentSlotsAreNotTakenTogether(t *testing.T) {
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{redistest.Mini(t).Mini.Addr()}})
	t.Cleanup(func() { _ = cluster.Close() })
	e := newEngine(t, cluster)
	pair := func(key string) []*core.Request {
		return []*core.Request{&newRequester("item:0").Request, &newRequester(key).Request}
	}
	first, neighbour, stranger := e.layout.KeySet("item:0"), "", ""
	for i := 1; neighbour == "" || stranger == ""; i++ {
		key := fmt.Sprint("item:", i)
		if k := e.layout.KeySet(key); k.Fence() == first.Fence() {
			neighbour = key
		} else {
			stranger = key
		}
	}
	if e.newMultiAcquire(t.Context(), pair(stranger)) != nil {
		t.Error("keys in different slots are taken together")
	}
	m := e.newMultiAcquire(t.Context(), pair(neighbour))
	if m == nil {
		t.Fatal("keys in one slot are not taken together")
	}
	m.giveBack()
}
