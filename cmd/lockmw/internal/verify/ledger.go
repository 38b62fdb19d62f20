package verify

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/lockmw/go/internal/judge"
)

// slack is how late an event may be that only needs a message or a timer. Delays that were measured do not count.
const slack = 2 * time.Second

// A ledger records what the workers report, and has it judged. It is safe for concurrent use.
type ledger struct {
	server *watch

	mu       sync.Mutex
	spans    *judge.Spans
	arrivals *judge.Arrivals
	calls    map[place]*entry
	fair     []*entry // granted, not judged yet
	findings findings
	seen     Seen
	keys     *keys
	patience time.Duration // the longest wait of a call
	problem  string        // the last error of a call for which Redis is unavailable
	changed  chan struct{} // closed with the next report of a call of an order
}

// timedOut is the type of the error of a call whose wait has ended.
const timedOut = "lock_timeout"

// A place identifies a call.
type place struct {
	m    *member
	call int
}

// An entry is a call of a worker.
type entry struct {
	place
	key     string
	span    *judge.Span
	grant   report
	reports map[string]report // by event; nil unless the call is that of an order
}

func newLedger(server *watch, k *keys, patience time.Duration) *ledger {
	return &ledger{
		server: server, spans: judge.NewSpans(), arrivals: judge.NewArrivals(), calls: make(map[place]*entry),
		keys: k, patience: patience, changed: make(chan struct{}),
		seen: Seen{Faults: make(map[string]int)},
	}
}

// expect returns the entry of a call that m is about to be ordered.
func (l *ledger) expect(m *member, call int, key string) *entry {
	e := &entry{place: place{m, call}, key: key, reports: make(map[string]report)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[e.place] = e
	return e
}

// heard records a report of m.
func (l *ledger) heard(m *member, r *report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen.Scripts += r.Scripts
	switch r.Event {
	case ready:
		close(m.ready)
		return
	case wrote:
		l.keys.add(r.Wrote)
		return
	}
	e := l.calls[place{m, r.Call}]
	if e == nil { // a call at random, or one that has ended
		e = &entry{place: place{m, r.Call}}
	}
	if e.reports != nil {
		e.reports[r.Event] = *r
		close(l.changed)
		l.changed = make(chan struct{})
	}
	switch r.Event {
	case judge.Granted:
		l.granted(e, r)
	case judge.Failed, wrong:
		l.failed(e, r)
	case judge.Renewed:
		l.seen.Renewals++
		l.spans.Report(e.span, r.Report)
	case judge.Shared:
		l.spans.Report(e.span, r.Report)
	case judge.Ended:
		l.spans.Report(e.span, r.Report)
		l.ended(r)
	case judge.Late:
		l.findings.add(Unnoticed, r.At, "%s: token %d: the holder was not told of the end of its lease %v before", r.Key, r.Token, r.Late.Round(time.Millisecond))
	case early:
		l.seen.Vanished++
		l.findings.add(Vanished, r.At, "%s: %s", r.Key, r.Err)
	case judge.Done:
		delete(l.calls, e.place)
	}
}

func (l *ledger) granted(e *entry, r *report) {
	l.calls[e.place] = e
	e.grant = *r
	e.span = l.spans.Report(nil, r.Report)
	l.seen.Holds++
	switch r.Kind {
	case Read, Write:
		l.seen.ReadWrite++
	case Permit:
		l.seen.Permits++
	default:
		l.seen.Exclusive++
	}
	if r.Queued > 0 {
		l.seen.Waited++
	}
	if r.Kind == Fair {
		l.fair = append(l.fair, e)
	}
	l.limited(r)
}

func (l *ledger) failed(e *entry, r *report) {
	delete(l.calls, e.place)
	switch {
	case r.Event == wrong && r.Refused && l.server.troubled(r.At-grace, r.At):
		l.problem = r.Err
	case r.Event == wrong:
		l.findings.add(Unexpected, r.At, "%s: %s", r.Key, r.Err)
	case r.Type == timedOut:
		excused := e.m.disturbed.Within(r.Asked, r.At) > 0 || l.server.troubled(r.Asked, r.At)
		if waited := r.At - r.Asked - judge.Sum(r.Stalls); waited >= l.patience && !excused {
			l.findings.add(NoEnd, r.At, "%s: a call waited for %v in vain", r.Key, waited.Round(time.Millisecond))
		}
	case r.Type == "lock_unavailable":
		l.problem = r.Err
	}
	l.limited(r)
}

// limited judges the length of a wait with a limit.
func (l *ledger) limited(r *report) {
	if !r.Limited {
		return
	}
	l.seen.Limited++
	l.seen.LatestWait = max(l.seen.LatestWait, r.Late)
	if r.Late > slack {
		l.findings.add(Overdue, r.At, "%s: a call returned %v after the end of its wait", r.Key, r.Late.Round(time.Millisecond))
	}
}

func (l *ledger) ended(r *report) {
	if !r.Lost {
		return
	}
	l.seen.Lost++
	l.seen.LatestLoss = max(l.seen.LatestLoss, r.Late)
	if r.Late > slack {
		l.findings.add(Unnoticed, r.At, "%s: token %d: the holder learned of its loss %v after its deadline", r.Key, r.Token, r.Late.Round(time.Millisecond))
	}
}

// killed records that a member was killed. All of its reports have been heard.
func (l *ledger) killed(m *member, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, e := range l.calls {
		if p.m == m {
			if e.span != nil {
				l.spans.End(e.span, at)
			}
			delete(l.calls, p)
		}
	}
}

// settle judges what happened before a time of the machine.
func (l *ledger) settle(before time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blame(l.spans.Settle(before))
	var rest []*entry
	for _, e := range l.fair {
		g := &e.grant
		if g.At >= before {
			rest = append(rest, e)
			continue
		}
		excused := judge.Sum(g.Stalls) > slack/2 || e.m.disturbed.Within(g.Asked, g.At) > 0 || l.server.troubled(g.Asked, g.At)
		if g.Queued > 0 && !excused {
			l.seen.Ordered++
		}
		l.blame(l.arrivals.Add(judge.Arrival{Key: g.Key, Asked: g.Asked, Queued: g.Queued, Granted: g.At, Token: g.Token, Excused: excused}))
	}
	l.fair = rest
}

func (l *ledger) settleAll() { l.settle(math.MaxInt64) }

var symptoms = map[judge.Kind]Symptom{judge.Overlap: TwoHolders, judge.Tokens: TokensFell, judge.Overtaken: Overtaken}

func (l *ledger) blame(violations []judge.Violation) {
	for _, v := range violations {
		l.findings.add(symptoms[v.Kind], v.At, "%s: %s", v.Key, v.Text)
	}
}

// blameFor records a finding of a fault script.
func (l *ledger) blameFor(s Symptom, at time.Duration, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.findings.add(s, at, format, args...)
}

// note changes what was seen.
func (l *ledger) note(f func(*Seen)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.seen)
}

// deadline returns the last known deadline of the hold of an order.
func (l *ledger) deadline(e *entry) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	granted, renewed := e.reports[judge.Granted], e.reports[judge.Renewed]
	return max(granted.Deadline, renewed.Deadline)
}

// await waits for a report of the call of an order that has one of these events. It returns false after the given time.
func (l *ledger) await(e *entry, within time.Duration, events ...string) (report, bool) {
	limit := time.After(within)
	for {
		l.mu.Lock()
		for _, name := range events {
			if r, ok := e.reports[name]; ok {
				l.mu.Unlock()
				return r, true
			}
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-e.m.over:
			return report{}, false
		case <-limit:
			return report{}, false
		}
	}
}

// isGranted waits for the outcome of the call of an order, and reports whether it received the lock in the given time.
func (l *ledger) isGranted(e *entry, within time.Duration) bool {
	got, ok := l.await(e, within, judge.Granted, judge.Failed, wrong)
	return ok && got.Event == judge.Granted
}

// A Symptom is the name of a broken promise.
type Symptom string

// The symptoms, the most harmful one first.
const (
	TwoHolders Symptom = "two holders at the same time"
	TokensFell Symptom = "tokens fell"
	LostWrites Symptom = "lost writes after a restart or fail-over"
	Vanished   Symptom = "a hold vanished before its lease ended"
	NoEnd      Symptom = "a lock did not end with its lease"
	Unnoticed  Symptom = "a holder noticed its loss too late"
	Overtaken  Symptom = "a fair lock overtook a waiting call"
	Overdue    Symptom = "a wait did not end in time"
	Unexpected Symptom = "an unexpected answer"
)

var allSymptoms = []Symptom{TwoHolders, TokensFell, LostWrites, Vanished, NoEnd, Unnoticed, Overtaken, Overdue, Unexpected}

// findings are the violations of a run.
type findings []finding

type finding struct {
	symptom Symptom
	at      time.Duration
	text    string
}

func (f *findings) add(s Symptom, at time.Duration, format string, args ...any) {
	*f = append(*f, finding{s, at, fmt.Sprintf(format, args...)})
}
