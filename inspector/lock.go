package inspector

import (
	"encoding/hex"
	"strings"
	"time"

	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/internal/recordview"
	"github.com/lockmw/go/lockmw"
)

// The states of a lock, the most important to an engineer on call first.
const (
	stateContended = "contended" // held, with waiters
	stateWaiting   = "waiting"   // waiters but no holder: it is being granted, or its waiters died
	stateHeld      = "held"
	stateLingering = "lingering" // released, but a minimum hold keeps the key taken
	stateKept      = "kept"      // only kept places
	stateUnknown   = "unknown"   // it could not be read
	stateFree      = "free"
)

// A lock is one key as pages and JSON show it.
type lock struct {
	Key         string    `json:"key"`
	Href        string    `json:"href"` // relative link to its page; in JSON, to its JSON
	Mode        string    `json:"mode"`
	State       string    `json:"state"`
	Holders     []holder  `json:"holders"`
	Waiting     int       `json:"waiting"`
	LongestWait *millis   `json:"longest_wait_ms"` // nil: no waiters, or their times are unknown
	Waiters     []waiter  `json:"waiters,omitempty"`
	Kept        []kept    `json:"kept_places,omitempty"`
	Record      *record   `json:"record,omitempty"` // whether the work of the key was done (package idempotency)
	Tasks       []task    `json:"tasks,omitempty"`  // asynq tasks that wait for it
	MoreTasks   int       `json:"more_tasks,omitempty"`
	NoTasks     *problem  `json:"tasks_error,omitempty"` // why the tasks could not be read
	Error       *problem  `json:"error,omitempty"`
	ReadAt      time.Time `json:"read_at"`
}

// First returns the holder that the overview shows; nil if there is none.
func (l *lock) First() *holder {
	if len(l.Holders) == 0 {
		return nil
	}
	return &l.Holders[0]
}

// More returns the number of further holders.
func (l *lock) More() int { return max(len(l.Holders)-1, 0) }

// The rows that a page shows. JSON has all rows.
func (l *lock) SomeHolders() []holder { return l.Holders[:min(len(l.Holders), mostShown)] }
func (l *lock) SomeWaiters() []waiter { return l.Waiters[:min(len(l.Waiters), mostShown)] }
func (l *lock) SomeKept() []kept      { return l.Kept[:min(len(l.Kept), mostShown)] }

type holder struct {
	Owner       string    `json:"owner"`
	Process     string    `json:"process"`
	Label       string    `json:"label,omitempty"`
	Token       int64     `json:"token"`
	Since       time.Time `json:"since"`
	Held        millis    `json:"held_ms"`
	LeaseLeft   millis    `json:"lease_left_ms"`
	Fixed       bool      `json:"fixed,omitempty"`
	Lingers     bool      `json:"lingers,omitempty"`
	Weight      int       `json:"weight,omitempty"`
	Slots       string    `json:"slots,omitempty"`
	TraceParent string    `json:"traceparent,omitempty"`
	TraceURL    string    `json:"trace_url,omitempty"`
	ForceHref   string    `json:"-"` // link to the confirmation page; "" if the viewer may not release it
}

type waiter struct {
	Ticket   string     `json:"ticket,omitempty"`
	Position int        `json:"position,omitempty"` // of its ticket; 0: no ticket, it waits in the holder's process
	Process  string     `json:"process"`
	Mode     string     `json:"mode"`
	Calls    int        `json:"calls"`
	Label    string     `json:"label,omitempty"`
	Since    *time.Time `json:"since"`
	Waited   *millis    `json:"waited_ms"`
	Weight   int        `json:"weight,omitempty"`
}

type kept struct {
	Name    string    `json:"name"`
	Since   time.Time `json:"since"`
	KeptFor millis    `json:"kept_for_ms"`
}

// A problem describes why something could not be read.
type problem struct {
	Type    string `json:"type"`    // as lockmw.Error's ErrorType
	Message string `json:"message"` // for people
	Help    string `json:"-"`       // the remedy; may be empty
	Page    string `json:"-"`       // URL of a page about the remedy; may be empty
}

// lock converts s, which was read at a time, with its durations brought up to date. Details are its waiters and kept places.
func (v *view) lock(s *lockmw.Status, err error, at time.Time, details bool) *lock {
	now := time.Now()
	l := &lock{
		Key: v.shown(s.Key), Href: v.href(s.Key), Mode: modeOf(s), State: stateOf(s, err), Holders: make([]holder, len(s.Holders)),
		Waiting: s.Waiting(), LongestWait: waitSince(s.WaitingSince(), now), ReadAt: at.UTC(), Error: v.problemOf(err),
	}
	for i := range s.Holders {
		l.Holders[i] = v.holder(s.Key, &s.Holders[i], at, now)
	}
	if !details {
		return l
	}
	for _, w := range s.Waiters {
		l.Waiters = append(l.Waiters, waiter{
			Ticket: w.Ticket, Position: w.Position, Process: w.Process, Mode: w.Mode, Calls: w.Calls, Label: w.Label,
			Since: recordview.Time(w.Since), Waited: waitSince(w.Since, now), Weight: w.Weight,
		})
	}
	for _, k := range s.Kept {
		l.Kept = append(l.Kept, kept{k.Name, k.Since.UTC(), millisOf(k.TTL - now.Sub(at))})
	}
	l.Record = v.record(s, at, now)
	return l
}

func (v *view) holder(key string, h *lockmw.Holder, at, now time.Time) holder {
	shown := holder{
		Owner: h.Owner, Process: h.Process, Label: h.Label, Token: h.Token, Since: h.Since.UTC(), Held: millisOf(now.Sub(h.Since)),
		LeaseLeft: millisOf(h.TTL - now.Sub(at)), Fixed: h.Fixed, Lingers: h.Lingers, Weight: h.Weight, Slots: h.Slots,
	}
	if p, ok := observe.ParseTraceParent(h.TraceParent); ok {
		shown.TraceParent = h.TraceParent
		trace, span := hex.EncodeToString(p.TraceID[:]), hex.EncodeToString(p.SpanID[:])
		shown.TraceURL = strings.NewReplacer("{trace_id}", trace, "{span_id}", span).Replace(v.traceURL)
	}
	if v.mayForce {
		shown.ForceHref = v.forceHref(key, h)
	}
	return shown
}

// modeOf returns the mode of the holders, or of the first waiter.
func modeOf(s *lockmw.Status) string {
	if s.Mode == "" && len(s.Waiters) > 0 {
		return s.Waiters[0].Mode
	}
	return s.Mode
}

func stateOf(s *lockmw.Status, err error) string {
	lingers := len(s.Holders) > 0
	for _, h := range s.Holders {
		lingers = lingers && h.Lingers
	}
	switch {
	case err != nil:
		return stateUnknown
	case len(s.Waiters) > 0 && len(s.Holders) > 0:
		return stateContended
	case len(s.Waiters) > 0:
		return stateWaiting
	case lingers:
		return stateLingering
	case len(s.Holders) > 0:
		return stateHeld
	case len(s.Kept) > 0:
		return stateKept
	}
	return stateFree
}

// waitSince returns the duration of a wait that began at since; nil if that is unknown.
func waitSince(since, now time.Time) *millis {
	if since.IsZero() {
		return nil
	}
	wait := millisOf(now.Sub(since))
	return &wait
}
