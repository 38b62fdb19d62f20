// Package judge finds out whether locks kept their promises: it records holds, of this process and others,
// and calls, and tells what may not have happened.
package judge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/lockmw"
)

// A Recorder sees every call of a scenario and checks what the locks promise:
//
//   - two holds of a key never overlap unless both read, each counting from its grant until Unlock is
//     called, its deadline has passed or its client was closed, and one that was not unlocked before the
//     next grant that it excludes is not unlocked without an error afterwards;
//   - tokens increase from grant to grant of a key; those of reading holds may stay as they were, but
//     are at least that of every writing hold before;
//   - a call ends when its wait or its context does, not later and not earlier;
//   - a failed call returns its own context, no hold, and an *Error.
//
// A hold reads if the Locker that it came from says so: see Reading. Re-entry is not for it: a nested
// Lock goes to the Locker itself. Safe for concurrent use.
type Recorder struct {
	slack time.Duration // how much later than its bound a call may return
	Pace  *Pace

	mu         sync.Mutex
	keys       map[string]*record
	pending    int     // calls that have not returned
	losses     []int64 // when the server lost its memory, by the clock that seeds tokens
	passed     bool    // since then processes may have passed on what they had before
	spanned    bool    // spans are kept: other processes take part
	violations []string
}

// NewRecorder returns a Recorder that finds a call late if it returns more than slack after its end.
func NewRecorder(slack time.Duration) *Recorder {
	return &Recorder{slack: slack, keys: make(map[string]*record)}
}

// A Held is a recorded hold. Use its Unlock, not the Hold's.
type Held struct {
	*lockmw.Hold
	Ctx        context.Context
	r          *Recorder
	record     *record
	span       *Span // nil if none are kept
	Nth        int   // grant of its key
	Reads      bool  // it excludes only those that do not
	forfeited  bool
	superseded bool
}

// Lock calls l.Lock and records what comes of it.
func (r *Recorder) Lock(ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) (context.Context, *Held, error) {
	c := r.begin(ctx, key, Reads(l), opts)
	inner, hold, err := l.Lock(ctx, key, opts...)
	r.end(c, inner, hold, err)
	if err != nil {
		return inner, nil, err
	}
	return inner, r.granted(c, inner, hold), nil
}

// LockAll calls lockmw.LockAll and records what comes of it. l may be what Lock could not tell the reads of.
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
		held[i] = r.granted(c, inner, hold)
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

// A call is one Lock under way.
type call struct {
	ctx    context.Context
	key    string
	start  time.Time
	wait   time.Duration // the call's own limit; lockmw.Forever if it has none
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
func (r *Recorder) end(c *call, inner context.Context, hold *lockmw.Hold, err error) {
	now := time.Now()
	c.unhook()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending--
	if ended := c.ended.Load(); ended != nil && r.Pace.Between(*ended, now) > r.slack {
		r.violate("%q: the call returned %v after its context had ended", c.key, now.Sub(*ended))
	}
	took := now.Sub(c.start)
	if took-r.slack-r.Pace.lost(c.start, now) > c.wait {
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

// granted checks a new hold against those before it.
func (r *Recorder) granted(c *call, ctx context.Context, hold *lockmw.Hold) *Held {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.record(c.key)
	h := &Held{Hold: hold, Ctx: ctx, r: r, record: k, Reads: c.reads}
	if h.over() { // this goroutine came late to its own hold
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
	// A reader's is the last token that the server knows of, which may have forgotten later ones.
	if forgot := len(r.losses) > 0; !follows(hold.Token(), before, h.Reads) && !(h.Reads && forgot) {
		r.violate("%q: token %d after %d", c.key, hold.Token(), before)
	}
	era.enter(h)
	era.tokens.add(hold.Token(), h.Reads)
	k.tokens.add(hold.Token(), h.Reads)
	k.grants++
	h.Nth = k.grants
	if r.spanned {
		h.span = &Span{token: hold.Token(), From: MachineTime(now), Reads: h.Reads, held: h}
		k.spans = append(k.spans, h.span)
	}
	return h
}

// over says that h is exclusive no more: its deadline has passed, or its client was closed, which ends
// the contexts of its holds before their locks are released.
func (h *Held) over() bool {
	d := h.Deadline()
	return !d.IsZero() && !time.Now().Before(d) || errors.Is(context.Cause(h.Ctx), lockmw.ErrClosed)
}

// Unlock ends the hold.
func (h *Held) Unlock() error { return h.End(h.Hold.Unlock) }

// End is Unlock where something else ends what the hold stands for.
func (h *Held) End(unlock func() error) error {
	h.r.mu.Lock()
	h.r.era(h.record, h.Token()).leave(h)
	h.span.end(time.Now())
	superseded := h.superseded
	h.r.mu.Unlock()
	err := unlock()
	if superseded && err == nil {
		h.r.mu.Lock()
		defer h.r.mu.Unlock()
		h.r.violate("%q: token %d was unlocked without an error after somebody else's grant", h.Key(), h.Token())
	}
	return err
}

// Share says that the hold excludes other readers no longer, which do brings about: a Downgrade, or the
// Unlock of what was more than reading in it.
func (h *Held) Share(do func() error) error {
	h.r.mu.Lock()
	h.Reads = true // others may be let in before do returns
	h.span.share(MachineTime(time.Now()))
	h.r.mu.Unlock()
	return do()
}

// Forfeit says that the locks held now exclude nobody from here on, because the test takes them away.
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

// Lose calls lose, which makes the server lose its memory, or some of it, and returns the server's
// time in µs: not before its last grant, and not after the next one. A hold from before that excludes
// none from after it; which is which is told by their tokens, as these are seeded from that clock.
// passed says that processes pass a lock on without asking the server: then one from before may also
// be granted after one from after it, because what a superseded process passes on has to stay below
// the others' tokens. Readers' tokens are not compared after a loss. Everything else is promised as
// before.
func (r *Recorder) Lose(passed bool, lose func() int64) {
	r.mu.Lock() // nothing that happens after the loss is judged before it is known
	defer r.mu.Unlock()
	r.losses = append(r.losses, lose())
	r.passed = r.passed || passed
}

// Grants returns how often key was granted.
func (r *Recorder) Grants(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record(key).grants
}

// Violations returns what was found, the first few of it, and calls that have not returned.
func (r *Recorder) Violations() []string {
	const most = 10
	r.mu.Lock()
	defer r.mu.Unlock()
	all := append([]string(nil), r.violations[:min(most, len(r.violations))]...)
	if n := len(r.violations) - most; n > 0 {
		all = append(all, fmt.Sprintf("… and %d more", n))
	}
	all = append(all, r.overlaps()...)
	if r.pending > 0 {
		all = append(all, fmt.Sprintf("%d calls have not returned", r.pending))
	}
	return all
}

func (r *Recorder) violate(format string, args ...any) {
	r.violations = append(r.violations, fmt.Sprintf(format, args...))
}
