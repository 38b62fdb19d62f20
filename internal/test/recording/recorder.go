// Package recording records the calls of a scenario, in this process and in others, and checks that locks keep their guarantees.
package recording

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/lockmw"
)

// A Recorder records every call of a scenario and checks the guarantees of locks:
//
//   - Two holds of a key never overlap unless both read. A hold lasts from its grant until Unlock is called, its deadline passes
//     or its client is closed. If another hold that it excludes is granted before its Unlock, Unlock returns an error.
//   - Tokens increase from grant to grant of a key. The token of a read hold may equal the previous one, but is at least that
//     of every write hold before.
//   - A call returns when its wait or its context ends, neither later nor earlier.
//   - A failed call returns the caller's context, no hold, and an *Error.
//
// Whether a hold reads depends on its Locker: see Reading. Do not record re-entry: call the nested Lock on the Locker itself.
// A Recorder is safe for concurrent use.
type Recorder struct {
	slack time.Duration // how late a call may return
	Pace  *judge.Pace
	spans *judge.Spans // compares holds of several processes

	mu         sync.Mutex
	keys       map[string]*record
	pending    int  // calls that have not returned
	lost       bool // the server has lost data
	passed     bool // since a loss, processes may have passed on older locks
	spanned    bool // compare the holds of this process with holds of others
	violations []string
}

// NewRecorder returns a Recorder that accepts calls which return up to slack late.
func NewRecorder(slack time.Duration) *Recorder {
	return &Recorder{slack: slack, spans: judge.NewSpans(), keys: make(map[string]*record)}
}

// A Held is a recorded hold. Call its Unlock, not the Hold's.
type Held struct {
	*lockmw.Hold
	Ctx        context.Context
	r          *Recorder
	record     *record
	span       *judge.Span // nil without spans
	Nth        int         // number of this grant of the key
	Reads      bool        // a read lock
	forfeited  bool
	superseded bool
}

// Lock calls l.Lock and records the result.
func (r *Recorder) Lock(ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) (context.Context, *Held, error) {
	c := r.begin(ctx, key, Reads(l), opts)
	inner, hold, err := l.Lock(ctx, key, opts...)
	r.end(inner, c, hold, err)
	if err != nil {
		return inner, nil, err
	}
	return inner, r.granted(inner, c, hold), nil
}

// LockAll calls lockmw.LockAll and records the result. reads tells whether the holds are read locks.
func (r *Recorder) LockAll(ctx context.Context, l lockmw.Locker, reads bool, keys []string, opts ...lockmw.Option) (context.Context, []*Held, error) {
	calls := make([]*call, len(keys))
	for i, key := range keys {
		calls[i] = r.begin(ctx, key, reads, opts)
	}
	inner, holds, err := lockmw.LockAll(ctx, l, keys, opts...)
	r.mu.Lock()
	for _, c := range calls {
		c.unhook()
		r.pending--
	}
	r.mu.Unlock()
	if err != nil {
		return inner, nil, err
	}
	held := make([]*Held, len(keys))
	for i, c := range calls {
		hold := holds[slices.IndexFunc(holds, func(h *lockmw.Hold) bool { return h.Key() == c.key })]
		held[i] = r.granted(inner, c, hold)
	}
	return inner, held, nil
}

// UnlockAll ends the holds of a LockAll.
func UnlockAll(held []*Held) error {
	holds := make(lockmw.Holds, len(held))
	unlock := holds.Unlock
	for i, h := range held {
		holds[i] = h.Hold
		next := unlock
		unlock = func() error { return h.End(next) }
	}
	return unlock()
}

// A call is a Lock that has not returned.
type call struct {
	ctx    context.Context
	key    string
	start  time.Time
	wait   time.Duration // lockmw.Forever if the call has no limit
	reads  bool
	before int64 // a token granted before
	ended  atomic.Pointer[time.Time]
	unhook func() bool
}

func (r *Recorder) begin(ctx context.Context, key string, reads bool, opts []lockmw.Option) *call {
	c := &call{ctx: ctx, key: key, start: time.Now(), wait: lockmw.Forever, reads: reads}
	if p, err := lockmw.NewPolicy(opts...); err == nil {
		c.wait = p.Wait
	}
	c.unhook = context.AfterFunc(ctx, func() {
		now := time.Now()
		c.ended.Store(&now)
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending++
	c.before = r.record(key).tokens.before(reads)
	return c
}

// end checks how and when the call returned.
func (r *Recorder) end(inner context.Context, c *call, hold *lockmw.Hold, err error) {
	now := time.Now()
	c.unhook()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending--
	if ended := c.ended.Load(); ended != nil && r.Pace.Between(*ended, now) > r.slack {
		r.violate("%q: the call returned %v after its context had ended", c.key, now.Sub(*ended))
	}
	took := now.Sub(c.start)
	if r.Pace.Between(c.start, now)-r.slack > c.wait {
		r.violate("%q: a wait of at most %v took %v", c.key, c.wait, took)
	}
	if err == nil {
		if got, ok := lockmw.FromContext(inner); hold == nil || !ok || got != hold {
			r.violate("%q: the context does not carry the hold", c.key)
		}
		return
	}
	if hold != nil || inner != c.ctx {
		r.violate("%q: a failed call returned a hold or another context", c.key)
	}
	if e, ok := errors.AsType[*lockmw.Error](err); !ok || e.Key != c.key {
		r.violate("%q: the error is not an *Error of this key: %v", c.key, err)
	}
	if errors.Is(err, lockmw.ErrBusy) && c.ctx.Err() == nil && took < c.wait {
		r.violate("%q: gave up after %v of a wait of %v: %v", c.key, took, c.wait, err)
	}
}

// granted checks a new hold against earlier ones.
func (r *Recorder) granted(ctx context.Context, c *call, hold *lockmw.Hold) *Held {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.record(c.key)
	h := &Held{Hold: hold, Ctx: ctx, r: r, record: k, Reads: c.reads}
	if h.over() { // this goroutine noticed its grant too late
		return h
	}
	era := r.era(k, hold.Token())
	for _, before := range era.excluded(h) {
		switch {
		case before.forfeited:
		case before.over():
			before.superseded = true
		default:
			r.violate("%q: granted with token %d while token %d is held", c.key, hold.Token(), before.Token())
		}
	}
	before := era.tokens.before(h.Reads)
	if !r.passed {
		before = max(before, c.before)
	}
	// A reader's token is the last one that the server knows; the server may have lost later ones.
	if !judge.Follows(hold.Token(), before, h.Reads) && !(h.Reads && r.lost) {
		r.violate("%q: token %d after %d", c.key, hold.Token(), before)
	}
	era.enter(h)
	era.tokens.add(hold.Token(), h.Reads)
	k.tokens.add(hold.Token(), h.Reads)
	k.grants++
	h.Nth = k.grants
	if r.spanned {
		h.span = r.spans.Report(nil, judge.Report{
			Event: judge.Granted, Key: c.key, Token: hold.Token(), Reads: h.Reads, At: judge.MachineTime(now),
		})
		h.span.Live = h.Deadline
	}
	return h
}

// over reports whether h has expired or its client was closed. Close ends the contexts of holds before it releases their locks.
func (h *Held) over() bool {
	d := h.Deadline()
	return !d.IsZero() && !time.Now().Before(d) || errors.Is(context.Cause(h.Ctx), lockmw.ErrClosed)
}

// Unlock ends the hold.
func (h *Held) Unlock() error { return h.End(h.Hold.Unlock) }

// End ends the hold by calling unlock.
func (h *Held) End(unlock func() error) error {
	h.r.mu.Lock()
	h.r.era(h.record, h.Token()).leave(h)
	h.r.spans.End(h.span, time.Now())
	superseded := h.superseded
	h.r.mu.Unlock()
	err := unlock()
	if superseded && err == nil {
		h.r.mu.Lock()
		defer h.r.mu.Unlock()
		h.r.violate("%q: token %d was unlocked without an error after another grant", h.Key(), h.Token())
	}
	return err
}

// Share calls do, which makes the hold a read hold: a Downgrade, or the Unlock of its writing part.
func (h *Held) Share(do func() error) error {
	h.r.mu.Lock()
	h.Reads = true // readers may be admitted before do returns
	h.r.spans.Report(h.span, judge.Report{Event: judge.Shared, At: judge.MachineTime(time.Now())})
	h.r.mu.Unlock()
	return do()
}

// Forfeit records that the test is taking all current locks away, so that they exclude no later hold.
func (r *Recorder) Forfeit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.keys {
		for _, era := range k.eras {
			for _, h := range era.holders {
				h.forfeited = true
			}
		}
	}
}

// Lose calls lose, which makes the server lose some or all of its data. lose returns a server time in µs between the last grant
// before the loss and the first one after it. Holds from before the loss do not exclude later ones. Tokens, which are seeded
// from that clock, tell on which side of the loss a hold is. passed tells that processes pass locks on without the server:
// then a hold from before may be granted after one from after the loss, because passes keep the smaller tokens of their
// process. Readers' tokens are not compared after a loss. All other guarantees stay.
func (r *Recorder) Lose(passed bool, lose func() int64) {
	r.mu.Lock() // judge no event after the loss before the loss is recorded
	defer r.mu.Unlock()
	r.spans.Lose(passed, lose())
	r.lost, r.passed = true, r.passed || passed
}

// Grants returns how often key was granted.
func (r *Recorder) Grants(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record(key).grants
}

// Violations returns the first violations, and the number of calls that have not returned. Another call does not return again what
// holds of several processes have violated.
func (r *Recorder) Violations() []string {
	const most = 10
	r.mu.Lock()
	defer r.mu.Unlock()
	all := append([]string(nil), r.violations[:min(most, len(r.violations))]...)
	if n := len(r.violations) - most; n > 0 {
		all = append(all, fmt.Sprintf("… and %d more", n))
	}
	for _, v := range r.spans.Settle(math.MaxInt64) {
		all = append(all, fmt.Sprintf("%q: %s", v.Key, v.Text))
	}
	if r.pending > 0 {
		all = append(all, fmt.Sprintf("%d calls have not returned", r.pending))
	}
	return all
}

// KeepSpans makes the Recorder compare holds across processes. Other processes use Report and Killed.
func (r *Recorder) KeepSpans() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spanned = true
}

// Report records a child's report about a hold. s is the result for the hold's previous report.
func (r *Recorder) Report(s *judge.Span, said judge.Report) *judge.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	if said.Event == judge.Granted {
		k := r.record(said.Key)
		k.tokens.add(said.Token, said.Reads)
		k.grants++
	}
	return r.spans.Report(s, said)
}

// Killed records that the process of a hold was killed at t.
func (r *Recorder) Killed(s *judge.Span, t time.Time) { r.spans.End(s, t) }

func (r *Recorder) violate(format string, args ...any) {
	r.violations = append(r.violations, fmt.Sprintf(format, args...))
}
