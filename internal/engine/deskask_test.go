package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
)

// onTidyDesk runs test on each server, and checks what is left after each run of a script.
func onTidyDesk(t *testing.T, test func(d *desk)) {
	onDesk(t, func(d *desk) {
		d.tidy = true
		test(d)
	})
}

// onCrowdedDesk is onTidyDesk for tests with so many tickets that on a slow machine they are taken for dead
// before the test is over: the embedded server's clock stands still.
func onCrowdedDesk(t *testing.T, test func(d *desk)) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		if s.Mini != nil {
			s.Mini.SetTime(time.Now())
		}
		d := newDesk(t, s)
		d.tidy = true
		test(d)
	})
}

// onClock runs test on an embedded server whose clock stands still but for later.
func onClock(t *testing.T, test func(d *desk, later func(time.Duration))) {
	s := redistest.Mini(t)
	d := newDesk(t, s)
	d.tidy = true
	now := time.Now()
	s.Mini.SetTime(now)
	test(d, func(by time.Duration) {
		now = now.Add(by)
		s.Mini.SetTime(now)
	})
}

// An ask is what acquire.lua is told. What is left out is as a plain call has it.
type ask struct {
	id         string
	mode       core.Mode
	lease      time.Duration
	try        bool
	subscribed bool
	tokens     int
	trace      string
	former     string
	place      int64
	mark       bool // the former id is over
	ticket     string
	keep       time.Duration // how long its place is kept
}

const askedLease = 30 * time.Second // of an ask that says nothing of it

func (a *ask) run(d *desk) (keys []string, args []any) {
	flag, queued := "-", max(a.tokens, 1)
	if a.subscribed {
		flag = "+"
	}
	if a.try {
		queued = 0
	}
	mode, lease, place, mark := a.mode, a.lease, "", int64(0)
	if lease == 0 {
		lease = askedLease
	}
	keys = d.keys(d.name.done(a.id))
	args = []any{a.id, lease.Milliseconds(), "lockmw:inbox:" + a.id, "owner-" + a.id, fmt.Sprint(flag, queued), mode.String(), max(a.tokens, 1), a.trace}
	if a.former == "" && a.keep == 0 {
		return keys, args
	}
	over := a.id
	if a.former != "" {
		over = a.former
	}
	keys = append(keys, d.name.done(over))
	if a.keep > 0 {
		keys = append(keys, d.name.kept(a.ticket))
	}
	if a.place > 0 {
		place = fmt.Sprint(a.place)
	}
	if a.mark {
		mark = doneMillis
	}
	return keys, append(args, a.former, place, mark, a.keep.Milliseconds())
}

// A told is what acquire.lua answers, or poll.lua for one ticket.
type told struct {
	kind                            int64 // 1 held, 0 queued or busy, -1 refused or gone, 2 to be run again
	token, tokens, others           int64 // of what is held
	counter, position, total, place int64 // of a ticket
	holders                         []core.Holder
}

func (d *desk) ask(a ask) (told, error) {
	d.Helper()
	keys, args := a.run(d)
	r, err := d.try(d.scripts.acquire, keys, args...)
	if err != nil {
		return told{}, err
	}
	if token, ok := r.token(); ok {
		return told{kind: 1, token: token, tokens: 1}, nil
	}
	got := told{kind: r.int()}
	switch got.kind {
	case 1:
		got.token, got.tokens, got.others = r.int(), r.int(), r.int()
	case 0:
		got.counter, got.position, got.total, got.place = r.int(), r.int(), r.int(), r.int()
		got.holders = r.holders("lockmw:inbox:")
	}
	if r.err != nil || len(r.values) > 0 {
		d.Errorf("acquire of %s: %v, %v left", a.id, r.err, r.values)
	}
	return got, nil
}

// asks runs acquire.lua as often as its answer says.
func (d *desk) asks(a ask) told {
	d.Helper()
	for {
		got, err := d.ask(a)
		if err != nil {
			d.Fatalf("acquire of %s: %v", a.id, err)
		}
		if got.kind != 2 {
			return got
		}
	}
}

func (d *desk) read(id string) told {
	d.Helper()
	return d.asks(ask{id: id, mode: core.Read})
}

func (d *desk) tryRead(id string) told {
	d.Helper()
	return d.asks(ask{id: id, mode: core.Read, try: true})
}

func (d *desk) write(id string) told {
	d.Helper()
	return d.asks(ask{id: id, mode: core.Write})
}

func (d *desk) downgrade(id string) int64 {
	d.Helper()
	return d.run(d.scripts.downgrade, d.keys(), id).int()
}

func (d *desk) force(token int64, owner string) int64 {
	d.Helper()
	return d.run(d.scripts.force, d.keys(), token, owner).int()
}

// polls runs poll.lua for some ids. more is whether it is to be run again.
func (d *desk) polls(ids ...string) (all []told, more bool) {
	d.Helper()
	args := []any{"-"}
	for _, id := range ids {
		args = append(args, id, askedLease.Milliseconds())
	}
	r := d.run(d.scripts.poll, d.keys(), args...)
	more = r.int() == 1
	counter, total := r.int(), r.int()
	list := r.list()
	holders := r.holders("lockmw:inbox:")
	for _, one := range list {
		got := told{kind: one.int(), counter: counter, total: total, holders: holders}
		switch got.kind {
		case 1:
			got.token, got.tokens, got.others = one.int(), one.int(), one.int()
		case 0:
			got.position = one.int()
		}
		if one.err != nil || len(one.values) > 0 {
			d.Errorf("poll of %q: %v, %v left", ids, one.err, one.values)
		}
		all = append(all, got)
	}
	if r.err != nil || len(all) != len(ids) {
		d.Fatalf("poll of %q: %v, %v", ids, all, r.err)
	}
	return all, more
}

// settles runs poll.lua for nobody for as long as it says.
func (d *desk) settles() (runs int) {
	d.Helper()
	for {
		runs++
		if _, more := d.polls(); !more {
			return runs
		}
		if runs > 100 {
			d.Fatal("the queue is never settled")
		}
	}
}

// wantReaders checks who reads.
func (d *desk) wantReaders(ids ...string) {
	d.Helper()
	sc := d.look()
	got := make([]string, 0, len(ids))
	for id := range sc.readers() {
		got = append(got, id)
	}
	slices.Sort(got)
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		d.Errorf("%q read, want %q\n%v", got, ids, sc)
	}
}

// wantWriter checks who writes: for nobody id is "".
func (d *desk) wantWriter(id string) {
	d.Helper()
	if sc := d.look(); sc.holds() != id || id != "" && sc.holder.fields["mode"] != core.Write.String() {
		d.Errorf("%q writes, want %q\n%v", sc.holds(), id, sc)
	}
}

func (d *desk) wantHeld(what string, got told) {
	d.Helper()
	if got.kind != 1 || got.token < 1 || got.tokens != 1 {
		d.Errorf("%s: %+v, want it to be held", what, got)
	}
}

func (d *desk) wantQueued(what string, got told, position, total int64) {
	d.Helper()
	if got.kind != 0 || got.position != position || got.total != total {
		d.Errorf("%s: %+v, want it to be queued as number %d of %d", what, got, position, total)
	}
}

// expire makes a reader's time be over.
func (d *desk) expire(ids ...string) {
	d.Helper()
	sc := d.look()
	for _, id := range ids {
		_, rest, ok := strings.Cut(sc.holder.fields["reader:"+id], " ")
		if !ok {
			d.Fatalf("%s does not read", id)
		}
		ago := sc.now.Add(-time.Millisecond).UnixMilli()
		d.rdb.HSet(d.Context(), d.name.holder, "reader:"+id, fmt.Sprint(ago, " ", rest), "next", ago)
	}
}

// ends is when a reader's hold does.
func (d *desk) ends(id string) time.Time {
	d.Helper()
	sc := d.look()
	r, ok := sc.readers()[id]
	if !ok {
		d.Errorf("%s does not read\n%v", id, sc)
	}
	return r.ends
}

// hear subscribes to all inboxes. Each call of what it returns tells what was published since the last.
func (d *desk) hear() (heard func() []string) {
	d.Helper()
	ctx := d.Context()
	pubsub := d.rdb.PSubscribe(ctx, "lockmw:inbox:*")
	d.Cleanup(func() { _ = pubsub.Close() })
	receive := func() any {
		m, err := pubsub.ReceiveTimeout(ctx, soon)
		if err != nil {
			d.Fatal(err)
		}
		return m
	}
	receive() // subscribed
	return func() (all []string) {
		const end = "lockmw:inbox:end"
		d.rdb.Publish(ctx, end, "")
		for {
			m, ok := receive().(*redis.Message)
			switch {
			case ok && m.Channel == end:
				return all
			case ok:
				all = append(all, strings.TrimPrefix(m.Channel, "lockmw:inbox:")+": "+m.Payload)
			}
		}
	}
}

// keeps asks for a place that is kept.
func (d *desk) keeps(id, ticket string, keep time.Duration) told {
	d.Helper()
	return d.asks(ask{id: id, mode: core.Fair, ticket: ticket, keep: keep})
}

// zAt is a member of a sorted set, with a score as a scene has it.
func zAt(member, score string) redis.Z {
	x, _ := strconv.ParseFloat(score, 64)
	return redis.Z{Member: member, Score: x}
}

// goesAway is the cancel of a ticket whose place is kept.
func (d *desk) goesAway(id, ticket string, keep time.Duration) int64 {
	d.Helper()
	return d.run(d.scripts.cancel, d.keys(d.name.done(id), d.name.kept(ticket)), id, doneMillis, keep.Milliseconds()).int()
}

// tokenOf is the token of whoever has the lock.
func (d *desk) tokenOf() int64 {
	d.Helper()
	token, ok := d.look().holder.whole("token")
	if !ok {
		d.Fatalf("nobody has it: %v", d.look())
	}
	return token
}
