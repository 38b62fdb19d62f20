package engine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A part is what one of a lock's keys holds.
type part struct {
	kind, ours string            // its type, and that of what we keep there
	fields     map[string]string // of a hash, a sorted set, or the only one
	ttl        time.Duration
}

func (p *part) exists() bool    { return p.kind != "none" }
func (p *part) isStrange() bool { return p.exists() && p.kind != p.ours }

// same reports whether q holds the same; some fields may differ.
func (p *part) same(q *part, but ...string) bool {
	a, b := maps.Clone(p.fields), maps.Clone(q.fields)
	for _, field := range but {
		delete(a, field)
		delete(b, field)
	}
	return p.kind == q.kind && maps.Equal(a, b)
}

// whole reads a field as a number that the scripts may have written.
func (p *part) whole(field string) (int64, bool) {
	text := p.fields[field]
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n <= maxToken && strings.Trim(text, "0123456789") == ""
}

// A scene is what the lock's keys hold at one time.
type scene struct {
	at                            time.Time
	holder, queue, tickets, fence part
}

func (s *scene) String() string {
	return fmt.Sprintf("holder %v, queue %v, tickets %v, counter %v", s.holder, s.queue, s.tickets, s.fence)
}

// holds is the id that has the lock; "" if none.
func (s *scene) holds() string {
	if s.holder.isStrange() {
		return ""
	}
	return s.holder.fields["id"]
}

// counter is the fencing counter; not ok if it cannot be one.
func (s *scene) counter() (last int64, ok bool) {
	if !s.fence.exists() {
		return 0, true
	}
	last, ok = s.fence.whole("")
	return last, ok && !s.fence.isStrange()
}

func (s *stage) look() *scene {
	sc := &scene{at: time.Now()}
	for key, p := range map[string]*part{
		s.name.holder: &sc.holder, s.name.queue(): &sc.queue, s.name.tickets(): &sc.tickets, s.name.fence.(string): &sc.fence,
	} {
		p.ours = map[*part]string{&sc.holder: "hash", &sc.queue: "zset", &sc.tickets: "hash", &sc.fence: "string"}[p]
		s.lookAt(key, p)
	}
	return sc
}

func (s *stage) lookAt(key string, p *part) {
	ctx := s.Context()
	p.kind, p.ttl = s.rdb.Type(ctx, key).Val(), s.rdb.PTTL(ctx, key).Val()
	var err error
	switch p.kind {
	case "hash":
		p.fields, err = s.rdb.HGetAll(ctx, key).Result()
	case "string":
		p.fields = map[string]string{"": s.rdb.Get(ctx, key).Val()}
	case "zset":
		p.fields = make(map[string]string)
		var members []redis.Z
		members, err = s.rdb.ZRangeWithScores(ctx, key, 0, -1).Result()
		for _, z := range members {
			p.fields[z.Member.(string)] = fmt.Sprint(z.Score)
		}
	case "list":
		p.fields = map[string]string{"": strings.Join(s.rdb.LRange(ctx, key, 0, -1).Val(), " ")}
	case "set":
		p.fields = map[string]string{"": strings.Join(slices.Sorted(slices.Values(s.rdb.SMembers(ctx, key).Val())), " ")}
	}
	if err != nil {
		s.Fatal(err)
	}
}

// perform runs a script and checks what became of the lock.
func (s *stage) perform(r *run) {
	before := s.look()
	a, err := s.try(r.script, r.keys, r.args...)
	after := s.look()
	if time.Since(before.at) > time.Second {
		return // so busy a machine that leases may have run out in between
	}
	j := &judge{stage: s, run: r, before: before, after: after}
	if err != nil {
		j.refused(err)
	} else {
		got := r.read(a)
		if a.err != nil || len(a.values) > 0 {
			j.fault("its answer is not understood: %v, %v left", a.err, a.values)
			return
		}
		j.said(got)
	}
	j.leftAlone()
	j.ended()
	j.granted()
	if last, ok := after.counter(); ok {
		s.given = max(s.given, last)
	}
}

// A judge knows what one run of a script may do.
type judge struct {
	*stage
	run           *run
	before, after *scene
}

func (j *judge) fault(format string, args ...any) {
	j.Helper()
	j.Errorf("%s: %s\nbefore: %v\nafter:  %v", j.run.text, fmt.Sprintf(format, args...), j.before, j.after)
}

// refused checks an error: of the documented kind, and if it is acquire.lua's without a trace, as
// nobody is going to cancel the id.
func (j *judge) refused(err error) {
	if !strings.Contains(err.Error(), "WRONGTYPE") { // miniredis puts something before it
		j.fault("it failed: %v", err)
	}
	if len(j.run.ends) > 0 && j.run.asks == "" {
		return // what can be ended is
	}
	b, a := j.before, j.after
	if !b.holder.same(&a.holder) || !b.queue.same(&a.queue) || !b.tickets.same(&a.tickets) || !b.fence.same(&a.fence) {
		j.fault("it failed after its first write: %v", err)
	}
}

// said checks that an answer is true.
func (j *judge) said(got answer) {
	held := len(j.run.own) > 0 && j.before.holds() == j.run.own[0]
	switch j.run.script {
	case j.scripts.acquire:
		j.saidOf(j.run.asks, got)
	case j.scripts.poll:
		if len(got.ids) != len(j.run.own) {
			j.fault("it says something of %d ids", len(got.ids))
			return
		}
		for i, id := range got.ids {
			j.saidOf(j.run.own[i], id)
		}
	case j.scripts.renew, j.scripts.release:
		if held != (got.kind == 1) {
			j.fault("it answered %d", got.kind)
		}
	}
	if last, ok := j.after.counter(); got.stamp >= 0 && (!ok || last != got.stamp) || got.stamp < -1 {
		j.fault("it says that the counter is %d", got.stamp)
	}
}

func (j *judge) saidOf(id string, got answer) {
	_, queued := j.after.queue.fields[id]
	token, _ := j.after.holder.whole("token")
	switch {
	case got.kind == 1 && (j.after.holds() != id || token != got.token):
		j.fault("it says that %s holds the lock with token %d", id, got.token)
	case got.kind != 1 && j.after.holds() == id:
		j.fault("it does not say that %s holds the lock", id)
	case got.kind == 0 && !queued && !strings.HasPrefix(j.run.text, "try"):
		j.fault("it says that %s is queued", id)
	}
}

// leftAlone checks that what is not ours, and others' holds, are as they were.
func (j *judge) leftAlone() {
	for name, p := range map[string][2]*part{
		"holder":  {&j.before.holder, &j.after.holder},
		"queue":   {&j.before.queue, &j.after.queue},
		"tickets": {&j.before.tickets, &j.after.tickets},
		"counter": {&j.before.fence, &j.after.fence},
	} {
		if b, a := p[0], p[1]; b.isStrange() && (!b.same(a) || b.ttl < 0 && a.ttl >= 0) {
			j.fault("a stranger's %s was changed", name)
		}
	}
	if _, ok := j.before.counter(); !ok && !j.before.fence.same(&j.after.fence) {
		j.fault("a counter that is none was changed")
	}
	b, a := &j.before.holder, &j.after.holder
	switch id := b.fields["id"]; {
	case !b.exists() || b.isStrange(), b.ttl >= 0 && b.ttl <= j.after.at.Sub(j.before.at):
	case slices.Contains(j.run.ends, id) && id != "":
	case !b.same(a, "wanted"), b.ttl < 0 && a.ttl >= 0 && !slices.Contains(j.run.own, id):
		j.fault("another's hold was changed")
	}
}

// ended checks that nothing is left of an id that was cancelled, whatever else is wrong.
func (j *judge) ended() {
	if j.run.script != j.scripts.cancel {
		return
	}
	id := j.run.own[0]
	if _, queued := j.after.queue.fields[id]; queued && !j.after.queue.isStrange() || j.after.holds() == id {
		j.fault("%s is not cancelled", id)
	}
}

// granted checks a hold that the run has made: who may have it, and its token.
func (j *judge) granted() {
	b, a := j.before, j.after
	id := a.holds()
	if !a.holder.exists() || b.holder.exists() && b.holds() == id || id == "-" {
		return
	}
	if _, queued := b.queue.fields[id]; !queued && id != j.run.asks {
		j.fault("%q got the lock without having asked for it", id)
	}
	for other, score := range b.queue.fields {
		place, err := strconv.ParseFloat(score, 64)
		isBehind := err == nil && id == j.run.asks && j.run.place > 0 && j.run.place < place
		if _, queued := b.queue.fields[id]; !queued && !isBehind && j.isLive(other) && !slices.Contains(j.run.ends, other) {
			j.fault("%q got the lock while %q waits for it", id, other)
		}
	}
	token, ok := a.holder.whole("token")
	tokens, several := a.holder.whole("tokens")
	last, isCounter := a.counter()
	was, wasCounter := b.counter()
	switch {
	case !ok || !isCounter || !wasCounter:
		j.fault("a grant without a token")
	case token <= was || token <= j.given:
		j.fault("token %d after %d", token, max(was, j.given))
	case token > last || several && token+tokens-1 > last:
		j.fault("token %d is above the counter", token)
	}
}

// isLive reports whether the id of a ticket waited before the run, and was seen not long ago.
func (j *judge) isLive(id string) bool {
	tickets := &j.before.tickets
	seen, err := strconv.ParseInt(strings.TrimLeft(tickets.fields["@"+id], "+-"), 10, 64)
	now := j.clock
	if j.server.Mini == nil {
		now = j.after.at
	}
	age := now.Sub(time.UnixMilli(seen))
	return err == nil && !tickets.isStrange() && len(strings.Fields(tickets.fields[id])) >= 6 && age >= 0 && age < 2*pollInterval
}
