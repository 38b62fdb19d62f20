package script_test

import (
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/transport"
)

// A run is one run of a script in a story.
type run struct {
	text    string
	op      scripttest.Operation
	own     []string // ids on whose behalf it runs
	request string   // the id that it may bring into the queue, or to the lock
	place   float64  // that the request had in the queue before; 0: none
	ends    []string // ids that it may end
	send    func() (answer, error)
}

// An answer is what a run said, if it was not refused.
type answer struct {
	strange error          // it could not be read
	outcome script.Outcome // of what ends or renews an id: Done or NotHeld
	token   int64
	stamp   int64    // the fencing counter; unsaid if it was not said
	tickets []answer // of a poll
}

const unsaid = -1

// parse makes a run of a story's line; nil if it makes no sense.
func (s *stage) parse(verb string, words []string) *run {
	r := &run{text: strings.Join(append([]string{verb}, words...), " ")}
	verb, subscribed := strings.CutSuffix(verb, "+")
	for _, w := range words {
		if len(w) != 1 || w[0] < 'a' || w[0] > 'f' {
			break
		}
		r.own = append(r.own, w)
	}
	switch verb {
	case "poll":
		return r.poll(s)
	case "force":
		return r.force(s)
	case "wait", "try", "read", "tryread", "keep", "trykeep", "vote", "tryvote", "run", "runwrite":
		return r.acquire(s, verb, subscribed, words)
	case "over", "lost", "lostread":
		return r.follow(s, verb, subscribed, words)
	}
	if verb == "tell" {
		return r.tell(s, words)
	}
	return r.end(s, verb)
}

func (r *run) tell(s *stage, words []string) *run {
	const most = 1000
	calls, ok := scripttest.Number(words, 1, 0, most)
	number, also := scripttest.Number(words, 2, 1, most)
	if len(r.own) == 0 || !ok || !also {
		return nil
	}
	r.own = r.own[:1]
	r.op = &script.ReportWaiters{Keys: s.Keys, ID: scripttest.ID(r.own[0]), Calls: int(calls), Number: int(number)}
	r.send = r.ended(s, script.EndedAnswer)
	return r
}

func (r *run) poll(s *stage) *run {
	op := s.Polls(scripttest.Lease, r.own...)
	r.op = op
	r.send = func() (answer, error) {
		reply := s.Send(op)
		if reply.Err != nil {
			return answer{}, reply.Err
		}
		p, err := script.PollAnswer(reply, len(op.Tickets), s.Inbox(""))
		got := answer{strange: err, stamp: p.Stamp}
		for _, t := range p.Tickets {
			if t.Err != nil {
				got.strange = t.Err
			}
			got.tickets = append(got.tickets, answer{outcome: t.Outcome, token: t.Grant.Token, stamp: unsaid})
		}
		return got, nil
	}
	return r
}

func (r *run) force(s *stage) *run {
	now := s.Look()
	h := now.Holder
	if h.IsStrange() || h.Fields["token"] == "" {
		return nil
	}
	id, owner := h.Fields["id"], h.Fields["owner"]
	for reader, field := range now.Readers() {
		if id == "" || reader < id {
			id, owner = reader, field.Owner
		}
	}
	r.own, r.ends = nil, []string{id}
	for reader, field := range now.Readers() {
		if field.Owner == owner {
			r.ends = append(r.ends, reader)
		}
	}
	token, err := strconv.ParseInt(h.Fields["token"], 10, 64)
	r.op = &script.Force{Keys: s.Keys, Token: token, Owner: owner}
	r.send = r.ended(s, script.EndedAnswer)
	if err != nil { // no operator can see such a one
		r.send = func() (answer, error) {
			got, err := s.Eval("force", s.SixKeys(), h.Fields["token"], owner)
			if err == nil && got != int64(0) {
				s.Errorf("force with the token %q: %v", h.Fields["token"], got)
			}
			return answer{outcome: script.NotHeld, stamp: unsaid}, err
		}
	}
	return r
}

func (r *run) acquire(s *stage, mode string, subscribed bool, words []string) *run {
	if len(r.own) == 0 {
		return nil
	}
	a := scripttest.Acquire{ID: r.own[0], Subscribed: subscribed}
	mode, a.Try = strings.CutPrefix(mode, "try")
	switch mode {
	case "read":
		a.Mode = core.Read
	case "run", "runwrite":
		a.Mode, a.Runs, a.Process = core.Fair, true, "p"
		if mode == "runwrite" {
			a.Mode = core.Write
		}
		if a.ID > "d" {
			a.Process = "q"
		}
	case "keep":
		a.Mode, a.Place, a.KeepPlace = core.Fair, "t", 10*time.Second
	case "vote":
		s.votes(&a, words[len(r.own):])
	default:
		const most = 4096
		if tokens, ok := scripttest.Number(words, len(r.own), 1, most); ok {
			a.Tokens = int(tokens)
		}
		if calls, ok := scripttest.Number(words, len(r.own)+1, 1, most); ok {
			a.Calls = int(calls)
		}
	}
	if s.reuses(a) {
		return nil
	}
	return r.requests(s, a)
}

// votes makes a an acquire for a lock that is one of several. Words are how many tokens are wanted, and by how much the one
// that is proposed is ahead of the clock of the story (us), 'x' if none is proposed; a trace; and 'y' if somebody waits.
func (s *stage) votes(a *scripttest.Acquire, words []string) {
	a.Vote = &core.Vote{Tokens: 1}
	const most = 1 << 40
	if tokens, ok := scripttest.Number(words, 0, 1, most); ok {
		a.Vote.Tokens = int(tokens)
	}
	if ahead, ok := scripttest.Number(words, 1, -most, most); ok {
		a.Vote.Token = s.clock.UnixMicro() + ahead
	}
	if len(words) > 2 {
		a.Trace = words[2]
	}
	a.Tokens, a.Vote.NotifyHolder = a.Vote.Tokens, len(words) > 3
}

// requests makes r a run of acquire.lua.
func (r *run) requests(s *stage, a scripttest.Acquire) *run {
	op := a.Operation(s.Driver)
	r.op, r.request = op, a.ID
	r.send = func() (answer, error) {
		reply := s.Send(op)
		if reply.Err != nil {
			return answer{}, reply.Err
		}
		a, err := script.AcquireAnswer(reply, s.Inbox(""))
		got := answer{strange: err, outcome: a.Outcome, token: a.Grant.Token, stamp: unsaid}
		if a.Outcome == script.Queued {
			got.stamp = a.Stamp
		}
		return got, nil
	}
	return r
}

// reuses reports whether an id was in use for a lock of another mode. No process does that.
func (s *stage) reuses(a scripttest.Acquire) bool {
	mode, used := s.modes[a.ID]
	if !used {
		s.modes[a.ID] = a.Mode
	}
	return used && mode != a.Mode
}

// follow puts one id in the place of another.
func (r *run) follow(s *stage, verb string, subscribed bool, words []string) *run {
	if len(r.own) != 2 || r.own[0] == r.own[1] {
		return nil
	}
	a := scripttest.Acquire{ID: r.own[1], Subscribed: subscribed, Predecessor: r.own[0]}
	if place, ok := scripttest.Number(words, 2, 1, scripttest.MaxToken); ok {
		a.PredecessorPlace, r.place = place, float64(place)
	}
	if verb == "lostread" {
		a.Mode = core.Read
	}
	if mode, used := s.modes[a.Predecessor]; s.reuses(a) || used && (mode == core.Read) != (a.Mode == core.Read) {
		return nil
	}
	r.own, r.ends = r.own[1:], []string{a.Predecessor}
	return r.requests(s, a)
}

// end is a run that ends an id, or renews it.
func (r *run) end(s *stage, verb string) *run {
	if len(r.own) == 0 {
		return nil
	}
	id, served := r.own[0], r.own[1:]
	r.own, r.ends = []string{id}, []string{id}
	if verb == "served" || verb == "unserved" {
		r.ends = append(r.ends, served...)
	}
	release := func(op script.Release) {
		op.Keys, op.ID = s.Keys, scripttest.ID(id)
		r.op, r.send = &op, r.ended(s, script.EndedAnswer)
	}
	cancel := func(op script.Cancel) {
		op.Keys, op.ID, op.Mark = s.Keys, id, true
		r.op, r.send = &op, r.ended(s, script.EndedAnswer)
	}
	switch verb {
	case "release":
		release(script.Release{})
	case "served":
		release(script.Release{Served: served})
	case "unserved":
		cancel(script.Cancel{Served: served})
	case "linger":
		release(script.Release{Linger: time.Minute})
	case "mark":
		release(script.Release{Mark: true})
	case "leave":
		release(script.Release{Place: "t"})
	case "cancel":
		cancel(script.Cancel{})
	case "away":
		cancel(script.Cancel{Place: "t", KeepPlace: 5 * time.Second})
	case "down":
		r.op, r.send = &script.Downgrade{Keys: s.Keys, ID: scripttest.ID(id)}, r.ended(s, script.EndedAnswer)
	case "renew":
		r.ends = nil
		r.op = &script.Renew{Keys: s.Keys, ID: scripttest.ID(id), Lease: scripttest.Lease}
		r.send = r.ended(s, func(reply *transport.Reply) (script.Outcome, error) {
			got, err := script.RenewAnswer(reply)
			return got.Outcome, err
		})
	default:
		return nil
	}
	return r
}

// ended returns what sends r.op, whose answer is an outcome.
func (r *run) ended(s *stage, read func(*transport.Reply) (script.Outcome, error)) func() (answer, error) {
	return func() (answer, error) {
		reply := s.Send(r.op)
		if reply.Err != nil {
			return answer{}, reply.Err
		}
		outcome, err := read(reply)
		if outcome == script.More {
			outcome = script.Done
		}
		return answer{strange: err, outcome: outcome, stamp: unsaid}, nil
	}
}

func isRelease(op scripttest.Operation) bool   { _, ok := op.(*script.Release); return ok }
func isDowngrade(op scripttest.Operation) bool { _, ok := op.(*script.Downgrade); return ok }
func isTell(op scripttest.Operation) bool      { _, ok := op.(*script.ReportWaiters); return ok }
func isRenew(op scripttest.Operation) bool     { _, ok := op.(*script.Renew); return ok }
func isCancel(op scripttest.Operation) bool    { _, ok := op.(*script.Cancel); return ok }
