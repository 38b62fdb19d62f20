package script_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// peek runs peek.lua for ids that wait in this mode.
func peek(d *scripttest.Driver, mode core.Mode, ids ...string) script.Peeked {
	d.Helper()
	p := script.Peek{}
	for _, id := range ids {
		p.Tickets = append(p.Tickets, script.PeekedTicket{ID: scripttest.ID(id), Keys: d.Keys, Mode: mode})
	}
	a, err := script.PeekAnswer(d.Send(&p), len(ids))
	if err != nil {
		d.Fatalf("the peek failed: %v", err)
	}
	return a
}

// wantPeeked checks the state of one ticket. Its lock must stay taken for this time, which may have begun in the test.
func wantPeeked(d *scripttest.Driver, what string, mode core.Mode, id string, want script.PeekedState) {
	d.Helper()
	got := peek(d, mode, id).Tickets[0]
	if got.TTL > want.TTL || got.TTL < want.TTL-time.Since(d.Began)-time.Millisecond || want.TTL > 0 && got.TTL == 0 {
		d.Errorf("%s: it is taken for %v, want %v", what, got.TTL, want.TTL)
	}
	got.TTL = want.TTL
	if got != want {
		d.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

func TestAPeekSeesPlacesAndTheHolder(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		wantPeeked(d, "nothing", core.Fair, "b", script.PeekedState{})
		d.Fair("a")
		token := d.Token()
		d.Fair("b")
		d.Fair("c")
		a := peek(d, core.Fair, "c", "a", "b", "c")
		if a.Stamp != token {
			d.Errorf("the stamp is %d, want %d", a.Stamp, token)
		}
		for i, position := range []int{2, 0, 1, 2} {
			if got := a.Tickets[i].Position; got != position {
				d.Errorf("ticket %d has position %d, want %d", i, got, position)
			}
		}
		wantPeeked(d, "behind a holder", core.Fair, "b", script.PeekedState{Position: 1, TTL: scripttest.Lease, Token: token})
		d.Linger("a", scripttest.Lease/2)
		wantPeeked(d, "behind a minimum hold", core.Fair, "b", script.PeekedState{Position: 1, TTL: scripttest.Lease / 2, Token: token, Lingers: true})
		d.Redis.Persist(d.Context(), d.Keys.Holder())
		if ttl := peek(d, core.Fair, "b").Tickets[0].TTL; ttl < 24*time.Hour {
			d.Errorf("a lock that never ends is taken for %v", ttl)
		}
		d.Redis.Del(d.Context(), d.Keys.Holder())
		wantPeeked(d, "a free lock", core.Fair, "b", script.PeekedState{Position: 1})
	})
}

func TestAPeekSeesReaders(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Change(func(p *script.Params) { p.AcceptWindow = scripttest.AcceptWindow })
		d.Write("w")
		token := d.Token()
		d.Write("x")
		d.Read("r")
		held := script.PeekedState{Position: 1, TTL: scripttest.Lease, Token: token}
		wantPeeked(d, "a writer behind a writer", core.Write, "x", held)
		wantPeeked(d, "a reader behind a writer", core.Read, "r", held)
		d.Downgrade("w")
		d.Read("s")
		held.Reads, held.TTL = true, scripttest.AcceptWindow // of the reader that was admitted
		wantPeeked(d, "a writer behind readers", core.Write, "x", held)
		wantPeeked(d, "a reader behind readers", core.Read, "s", held)
	})
}

// The hash may last longer than the first of several holds.
func TestAPeekSeesWhenTheFirstOfSeveralEnds(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Acquire(scripttest.Acquire{ID: "long", Mode: core.Read, Lease: 3 * scripttest.Lease})
		d.Acquire(scripttest.Acquire{ID: "short", Mode: core.Read, Lease: scripttest.Lease})
		d.Write("w")
		if ttl := peek(d, core.Write, "w").Tickets[0].TTL; ttl > scripttest.Lease {
			d.Errorf("the first of the readers ends after %v", ttl)
		}
		d.Redis.FlushAll(d.Context())
		d.AcquirePermit(scripttest.Permit{ID: "long", N: 2, Lease: 3 * scripttest.Lease})
		d.AcquirePermit(scripttest.Permit{ID: "short", N: 2, Lease: scripttest.Lease})
		d.AcquirePermit(scripttest.Permit{ID: "w", N: 2})
		wantPeeked(d, "who waits for a permit", core.Permit, "w", script.PeekedState{Position: 1, TTL: scripttest.Lease})
		d.Redis.HSet(d.Context(), d.Keys.Holder(), "next", time.Now().Add(-time.Second).UnixMilli())
		wantPeeked(d, "after the first has ended", core.Permit, "w", script.PeekedState{Position: 1})
	})
}

// poll.lua reports the error.
func TestAPeekRefusesNothing(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Fair("a")
		d.Fair("b")
		for what, key := range map[string]string{"holder": d.Keys.Holder(), "queue": d.Keys.Queue()} {
			d.Redis.Rename(d.Context(), key, key+":saved")
			d.Redis.Set(d.Context(), key, "none of ours", 0)
			if got := peek(d, core.Fair, "b").Tickets[0]; got.Position != 0 {
				d.Errorf("%s: %+v", what, got)
			}
			d.Redis.Rename(d.Context(), key+":saved", key)
		}
		d.Redis.Set(d.Context(), d.Keys.Fence(), "none of ours", 0)
		if stamp := peek(d, core.Fair, "b").Stamp; stamp != -1 {
			d.Errorf("the stamp is %d", stamp)
		}
		d.Redis.Del(d.Context(), d.Keys.Fence())
	})
}

func TestAPeekWritesNothing(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Fair("a")
		d.Fair("b")
		for _, key := range []string{d.Keys.Holder(), d.Keys.Queue(), d.Keys.Tickets()} {
			d.Redis.Persist(d.Context(), key)
		}
		before := d.Look()
		peek(d, core.Fair, "b")
		after := d.Look()
		after.Now = before.Now
		if fmt.Sprint(before) != fmt.Sprint(after) {
			d.Errorf("%v has become %v", before, after)
		}
	})
}
