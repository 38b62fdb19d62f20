package engine

import (
	"strings"
	"time"

	"github.com/lockmw/go/internal/core"
)

// A run is one run of a script in a story.
type run struct {
	text   string
	script *script
	keys   []string
	args   []any
	own    []string // ids on whose behalf it runs
	asks   string   // the id that it may bring into the queue, or to the lock
	place  float64  // that asks had in the queue before; 0: none
	ends   []string // ids that it may end
	read   func(a *reply) answer
}

// parse makes a run of a story's line; nil if it makes no sense.
func (s *stage) parse(verb string, words []string) *run {
	r := &run{text: strings.Join(append([]string{verb}, words...), " ")}
	verb, subscribed := strings.CutSuffix(verb, "+")
	flag := "-"
	if subscribed {
		flag = "+"
	}
	for _, w := range words {
		if len(w) != 1 || w[0] < 'a' || w[0] > 'f' {
			break
		}
		r.own = append(r.own, w)
	}
	switch verb {
	case "poll":
		return r.poll(s, flag)
	case "force":
		return r.force(s)
	case "wait", "try", "read", "tryread", "keep", "trykeep":
		return r.acquire(s, verb, flag, words)
	case "over", "lost", "lostread":
		return r.follow(s, verb, flag, words)
	}
	return r.end(s, verb)
}

func (r *run) poll(s *stage, flag string) *run {
	r.script, r.keys, r.args, r.read = s.scripts.poll, s.keys(), []any{flag}, readPoll
	for _, id := range r.own {
		r.args = append(r.args, id, 30_000)
	}
	return r
}

func (r *run) force(s *stage) *run {
	now := s.look()
	h := now.holder
	if h.isStrange() || h.fields["token"] == "" {
		return nil
	}
	id, owner := h.fields["id"], h.fields["owner"]
	for reader, field := range now.readers() {
		if id == "" || reader < id {
			id, owner = reader, field.owner
		}
	}
	r.script, r.keys, r.args, r.read = s.scripts.force, s.keys(), []any{h.fields["token"], owner}, readEnd
	r.own, r.ends = nil, []string{id}
	for reader, field := range now.readers() {
		if field.owner == owner {
			r.ends = append(r.ends, reader)
		}
	}
	return r
}

func (r *run) acquire(s *stage, mode, flag string, words []string) *run {
	if len(r.own) == 0 {
		return nil
	}
	a := ask{id: r.own[0], subscribed: flag == "+"}
	mode, a.try = strings.CutPrefix(mode, "try")
	switch mode {
	case "read":
		a.mode = core.Read
	case "keep":
		a.mode, a.ticket, a.keep = core.Fair, "t", 10*time.Second
	default:
		a.tokens = 1
		if tokens, ok := number(words, len(r.own), 1, maxLicence); ok {
			a.tokens = int(tokens)
		}
	}
	if s.reuses(a) {
		return nil
	}
	r.asks, r.script, r.read = a.id, s.scripts.acquire, readAcquire
	r.keys, r.args = a.run(s.desk)
	if a.tokens == 1 {
		r.args = r.args[:5] // as most say it
	}
	return r
}

// reuses reports whether an id was in use for a lock of another mode. No process asks like that.
func (s *stage) reuses(a ask) bool {
	mode, used := s.modes[a.id]
	if !used {
		s.modes[a.id] = a.mode
	}
	return used && mode != a.mode
}

// follow puts one id in the place of another.
func (r *run) follow(s *stage, verb, flag string, words []string) *run {
	if len(r.own) != 2 || r.own[0] == r.own[1] {
		return nil
	}
	a := ask{id: r.own[1], subscribed: flag == "+", former: r.own[0]}
	if a.place, a.mark = number(words, 2, 1, maxToken); a.mark {
		r.place = float64(a.place)
	}
	if verb == "lostread" {
		a.mode = core.Read
	}
	if mode, used := s.modes[a.former]; s.reuses(a) || used && (mode == core.Read) != (a.mode == core.Read) {
		return nil
	}
	r.own, r.asks, r.ends = r.own[1:], a.id, []string{a.former}
	r.script, r.read = s.scripts.acquire, readAcquire
	r.keys, r.args = a.run(s.desk)
	return r
}

// end is a run that ends an id, or renews it.
func (r *run) end(s *stage, verb string) *run {
	if len(r.own) == 0 {
		return nil
	}
	id := r.own[0]
	r.own, r.ends, r.read = []string{id}, []string{id}, readEnd
	r.keys = s.keys()
	switch verb {
	case "release":
		r.script, r.args = s.scripts.release, []any{id}
	case "linger":
		r.script, r.args = s.scripts.release, []any{id, time.Minute.Milliseconds(), 0, 0}
	case "mark":
		r.keys = s.keys(s.name.done(id))
		r.script, r.args = s.scripts.release, []any{id, 0, doneMillis, 0}
	case "cancel":
		r.keys = s.keys(s.name.done(id))
		r.script, r.args = s.scripts.cancel, []any{id, doneMillis, 0}
	case "leave":
		r.keys = s.keys(s.name.done(id), s.name.kept("t"))
		r.script, r.args = s.scripts.release, []any{id, 0, 0, doneMillis}
	case "away":
		r.keys = s.keys(s.name.done(id), s.name.kept("t"))
		r.script, r.args = s.scripts.cancel, []any{id, doneMillis, 5000}
	case "down":
		r.script, r.args = s.scripts.downgrade, []any{id}
	case "renew":
		r.script, r.keys, r.args, r.ends = s.scripts.renew, r.keys[:1], []any{id, 30_000}, nil
	default:
		return nil
	}
	return r
}

// An answer is what a run said, read as the engine reads it.
type answer struct {
	kind  int64 // 1 held, 0 queued, -1 gone; of what ends or renews an id: 1 if it had the lock
	token int64
	stamp int64    // what the fencing counter was; -1 if it was not said
	ids   []answer // of a poll
}

func readAcquire(a *reply) answer {
	if token, ok := a.token(); ok {
		a.int()
		return answer{kind: 1, token: token, stamp: -1}
	}
	got := answer{kind: a.int(), stamp: -1}
	switch got.kind {
	case 1:
		got.token = a.licence().first
	case 0:
		got.stamp = a.int()
		a.int() // position
		a.int() // length of the queue
		a.int() // place
		a.holders(inboxPrefix("lockmw"))
	}
	return got
}

func readPoll(a *reply) answer {
	a.int() // more
	got := answer{stamp: a.int()}
	a.int() // length of the queue
	list := a.list()
	a.holders(inboxPrefix("lockmw"))
	for _, one := range list {
		id := answer{kind: one.int(), stamp: -1}
		switch id.kind {
		case 1:
			id.token = one.licence().first
		case 0:
			one.int() // position
		}
		if one.err != nil || len(one.values) > 0 {
			a.strange()
		}
		got.ids = append(got.ids, id)
	}
	return got
}

// readEnd reads what ends or renews an id.
func readEnd(a *reply) answer {
	return answer{kind: min(a.int(), 1), stamp: -1} // 2: and a poll is due, or others wait
}
