package scripttest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// A Permit contains the unusual arguments of an acquire of a permit. Zero values are those of a plain call.
type Permit struct {
	ID     string
	N      int
	Weight int           // 0: one
	Lease  time.Duration // 0: Lease
	Try    bool          // do not queue

	Subscribed       bool // its process then beats, and is subscribed
	Predecessor      string
	PredecessorPlace int64 // of a lost ticket
	Place            string
	KeepPlace        time.Duration
}

// Operation returns the operation that sends it.
func (a Permit) Operation(d *Driver) *script.Acquire {
	op := Acquire{
		ID: a.ID, Lease: a.Lease, Try: a.Try, Subscribed: a.Subscribed, Predecessor: a.Predecessor,
		PredecessorPlace: a.PredecessorPlace, Place: a.Place, KeepPlace: a.KeepPlace,
	}.Operation(d)
	op.Permits, op.Weight = a.N, max(a.Weight, 1)
	return op
}

// AcquirePermitOnce runs acquire.lua once.
func (d *Driver) AcquirePermitOnce(a Permit) (script.Acquired, error) {
	d.Helper()
	reply := d.Send(a.Operation(d))
	if a.Subscribed {
		d.Beat(a.ID, true)
	}
	return script.AcquireAnswer(reply, d.layout.InboxPrefix())
}

// AcquirePermit runs acquire.lua as often as its answers require.
func (d *Driver) AcquirePermit(a Permit) script.Acquired {
	d.Helper()
	for {
		got, err := d.AcquirePermitOnce(a)
		if err != nil {
			d.Fatalf("acquire of %s: %v", a.ID, err)
		}
		if got.Outcome != script.Again {
			return got
		}
	}
}

// PermitPolls returns an operation that polls for tickets of permits.
func (d *Driver) PermitPolls(ids ...string) *script.Poll {
	op := d.Polls(Lease, ids...)
	op.Permits = true
	return op
}

// PollPermits runs poll.lua once.
func (d *Driver) PollPermits(ids ...string) script.Polled {
	d.Helper()
	p, err := script.PollAnswer(d.Send(d.PermitPolls(ids...)), len(ids), d.layout.InboxPrefix())
	if err != nil {
		d.Fatalf("poll of %q: %v", ids, err)
	}
	return p
}

// ReleasePermit runs release.lua.
func (d *Driver) ReleasePermit(id string) script.Outcome {
	d.Helper()
	return d.ReleasePermitAs(script.Release{ID: ID(id)})
}

// ReleasePermitAs is ReleasePermit with an unusual argument.
func (d *Driver) ReleasePermitAs(l script.Release) script.Outcome {
	d.Helper()
	l.Keys, l.Permit = d.Keys, true
	got, err := script.EndedAnswer(d.Send(&l))
	d.check("release", l.ID.String(), err)
	return got
}

// RenewPermit runs renew.lua.
func (d *Driver) RenewPermit(id string, lease time.Duration) script.Outcome {
	d.Helper()
	got, err := script.RenewAnswer(d.Send(&script.Renew{Keys: d.Keys, ID: ID(id), Lease: lease}))
	d.check("renewal", id, err)
	return got.Outcome
}

// CancelPermit runs cancel.lua with a mark.
func (d *Driver) CancelPermit(id string) script.Outcome {
	d.Helper()
	got, err := script.EndedAnswer(d.Send(&script.Cancel{Keys: d.Keys, ID: id, Mark: true, Permit: true}))
	d.check("cancel", id, err)
	return got
}

// DisownPermits is Disown for permits.
func (d *Driver) DisownPermits(stem string, upTo uint64, inUse ...uint64) script.Outcome {
	d.Helper()
	return d.disown(&script.Disown{Stem: script.IDStem(stem), UpTo: upTo, InUse: inUse, Permit: true})
}

// Permits are the contents of the keys of a semaphore at one time.
type Permits struct {
	Now     time.Time // by the server's clock
	End     time.Time // also, after the TTLs were read
	Fields  map[string]string
	All     map[string]script.Permit // also expired ones
	Queue   []string
	Tickets map[string]string

	ttl, queueTTL, ticketsTTL time.Duration
}

// LookAtPermits reads them.
func (d *Driver) LookAtPermits() *Permits {
	d.Helper()
	ctx := d.Context()
	var now, end *redis.TimeCmd
	var fields, tickets *redis.MapStringStringCmd
	var queue *redis.StringSliceCmd
	var ttls [3]*redis.DurationCmd
	_, err := d.Redis.Pipelined(ctx, func(p redis.Pipeliner) error { // a full memory refuses MULTI
		now, fields, tickets = p.Time(ctx), p.HGetAll(ctx, d.Keys.Holder()), p.HGetAll(ctx, d.Keys.PermitTickets())
		queue = p.ZRange(ctx, d.Keys.PermitQueue(), 0, -1)
		for i, key := range []string{d.Keys.Holder(), d.Keys.PermitQueue(), d.Keys.PermitTickets()} {
			ttls[i] = p.PTTL(ctx, key)
		}
		end = p.Time(ctx)
		return nil
	})
	if err != nil {
		d.Fatal(err)
	}
	s := &Permits{
		Now: now.Val(), End: end.Val(), Fields: fields.Val(), Tickets: tickets.Val(), Queue: queue.Val(), All: make(map[string]script.Permit),
		ttl: ttls[0].Val(), queueTTL: ttls[1].Val(), ticketsTTL: ttls[2].Val(),
	}
	for field, text := range s.Fields {
		if id, ok := strings.CutPrefix(field, script.PermitField); ok {
			if p, ok := script.ParsePermit(text); ok {
				s.All[id] = p
			}
		}
	}
	return s
}

// Live returns the ids of the permits that have not expired.
func (s *Permits) Live() []string {
	return slices.Sorted(maps.Keys(s.live()))
}

func (s *Permits) live() map[string]script.Permit {
	live := maps.Clone(s.All)
	maps.DeleteFunc(live, func(_ string, p script.Permit) bool { return !p.Ends.After(s.Now) })
	return live
}

// Disorder returns the faults of keys that only the scripts have written to. `counted` means that the last script has counted
// the permits at this time.
func (s *Permits) Disorder(counted bool) (wrong []string) {
	fault := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if len(s.Queue) > 0 && (len(s.Fields) == 0 || s.queueTTL <= 0 || s.ticketsTTL <= 0 || s.ttl < s.queueTTL-Blur) {
		fault("the hash of %d fields is gone in %v, the queue in %v", len(s.Fields), s.ttl, s.queueTTL)
	}
	for field := range s.Tickets {
		if !slices.Contains(s.Queue, field) {
			fault("the field %s is left of a ticket", field)
		}
	}
	if len(s.Queue) == 0 && len(s.Tickets) > 0 {
		fault("there are tickets, and nobody waits")
	}
	if s.Fields["mode"] != core.Permit.String() {
		return wrong
	}
	used, slots := 0, make(map[int]string)
	next, okNext := Digits(s.Fields["next"])
	last, okLast := Digits(s.Fields["last"])
	for id, p := range s.live() {
		used += p.Weight
		some, err := core.ParseSlots(p.Slots)
		if err != nil || len(some) != p.Weight {
			fault("the permit %s of weight %d has the slots %q: %v", id, p.Weight, p.Slots, err)
		}
		for _, slot := range some {
			if other := slots[slot]; other != "" {
				fault("%s and %s have slot %d", id, other, slot)
			}
			slots[slot] = id
			if m := s.Fields["map"]; slot >= len(m) || m[slot] != '1' {
				fault("slot %d is not taken in the map %q", slot, m)
			}
		}
		if p.Ends.UnixMilli() < next || p.Ends.UnixMilli() > last {
			fault("%s ends at %d, not from %d to %d", id, p.Ends.UnixMilli(), next, last)
		}
		if s.End.Add(s.ttl).Before(p.Ends.Add(-Blur)) {
			fault("the key ends %v before %s", p.Ends.Sub(s.End.Add(s.ttl)), id)
		}
	}
	if !okNext || !okLast || s.ttl == -1 {
		fault("the fields are %v, for %v", s.Fields, s.ttl)
	}
	if counted && (s.Fields["used"] != fmt.Sprint(used) || strings.Count(s.Fields["map"], "1") != used) {
		fault("%s are counted in the map %q, and there are %d", s.Fields["used"], s.Fields["map"], used)
	}
	return wrong
}

// CheckPermits fails the test if the scripts have not left the keys in order.
func (d *Driver) CheckPermits(counted bool) {
	d.Helper()
	s := d.LookAtPermits()
	if wrong := s.Disorder(counted); len(wrong) > 0 {
		d.Fatalf("%s\n%+v", strings.Join(wrong, "\n"), s)
	}
}
