package locktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockmw/go/lockmw"
)

// A report is what a child says of one of its calls for a lock. Times are the machine's.
type report struct {
	Event    string // one of those below
	Call     int    // as the order has it
	Key      string
	Reads    bool // the hold was taken for reading
	At       time.Duration
	Token    int64
	Deadline time.Duration // until when the hold is exclusive without a further renewal
	Lost     bool          // with ended: its context ended before it was unlocked
	Type     string        // with failed and done: the error's type
	Err      string
}

// The events of a call for a lock. A hold is exclusive from granted until At of ended or the Deadline
// that ended tells, whichever comes first.
const (
	queued   = "queued"   // the call has to wait
	failed   = "failed"   // it did not get the lock
	granted  = "granted"  // it did
	renewed  = "renewed"  // the hold has another deadline
	shared   = "shared"   // it is about to be one for reading
	ended    = "ended"    // the hold's context has ended, or Unlock is about to be called
	watching = "watching" // somebody begins to look at the hold's context all the time
	watched  = "watched"  // … and saw it end
	late     = "late"     // … and found it alive after its deadline
	done     = "done"     // Unlock has returned

	downgraded = "downgraded" // Downgrade has returned
)

// An order tells a holder what to do.
type order struct {
	Do    string // "lock", "cancel", "watch", "downgrade" or "unlock"
	Call  int    // names the call for a lock, and the hold that comes of it
	Key   string
	Lease time.Duration // 0: the default
	Side  string        // "read" or "write"; "": the one that is tested
}

// A holder is a child that does with locks what it is told.
type holder struct {
	locker lockmw.Locker
	calls  map[int]*heldCall

	mu  sync.Mutex // guards what is below, and the state of the calls
	out *json.Encoder
	wg  sync.WaitGroup
}

// A heldCall is a call for a lock, and the hold that came of it.
type heldCall struct {
	h      *holder
	n      int
	key    string
	side   string
	cancel context.CancelFunc

	ctx   context.Context
	hold  *lockmw.Hold // nil before it is granted
	reads bool         // it was taken for reading
	over  bool         // its end is reported
}

func holderRole(_ *lockmw.Client, locker lockmw.Locker, in *json.Decoder, out *json.Encoder) error {
	h := &holder{locker: locker, out: out, calls: make(map[int]*heldCall)}
	defer h.wg.Wait()
	defer func() {
		for _, c := range h.calls {
			c.cancel()
		}
	}()
	for {
		var o order
		if err := in.Decode(&o); err != nil {
			return err
		}
		if err := h.follow(o); err != nil {
			return err
		}
	}
}

func (h *holder) follow(o order) error {
	c := h.calls[o.Call]
	switch {
	case o.Do == "lock" && c == nil:
		c = &heldCall{h: h, n: o.Call, key: o.Key, side: o.Side}
		h.calls[o.Call] = c
		var ctx context.Context
		ctx, c.cancel = context.WithCancel(context.Background())
		h.wg.Go(func() { c.lock(ctx, o.Lease) })
	case o.Do == "cancel" && c != nil:
		c.cancel()
	case o.Do == "watch" && c != nil:
		h.wg.Go(c.watch)
	case o.Do == "downgrade" && c != nil:
		h.wg.Go(c.downgrade)
	case o.Do == "unlock" && c != nil:
		h.wg.Go(c.unlock)
	default:
		return fmt.Errorf("an order that cannot be followed: %+v", o)
	}
	return nil
}

// lock waits for the lock, and then for the end of the hold's context.
func (c *heldCall) lock(ctx context.Context, lease time.Duration) {
	opts := []lockmw.Option{lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { c.report(report{Event: queued}) },
		Renewed: func(_ context.Context, _ lockmw.Attempt, err error) {
			if err == nil {
				c.report(report{Event: renewed})
			}
		},
	})}
	if lease > 0 {
		opts = append(opts, lockmw.WithLease(lease))
	}
	locker := c.h.locker
	if c.side != "" {
		locker = locker.(sides).side(c.side == readMode)
	}
	inner, hold, err := locker.Lock(ctx, c.key, opts...)
	if err != nil {
		c.report(report{Event: failed}.because(err))
		return
	}
	c.h.mu.Lock()
	c.ctx, c.hold, c.reads = inner, hold, reads(locker)
	c.h.mu.Unlock()
	c.report(report{Event: granted})
	<-inner.Done()
	c.end(errors.Is(context.Cause(inner), lockmw.ErrLost))
}

// because adds an error to a report.
func (r report) because(err error) report {
	if err == nil {
		return r
	}
	r.Type, r.Err = "another error", err.Error()
	if e, ok := errors.AsType[*lockmw.Error](err); ok {
		r.Type = e.ErrorType()
	}
	return r
}

// end reports the end of the hold, once.
func (c *heldCall) end(lost bool) {
	c.h.mu.Lock()
	over := c.over
	c.over = true
	c.h.mu.Unlock()
	if !over {
		c.report(report{Event: ended, Lost: lost})
	}
}

func (c *heldCall) unlock() {
	hold := c.taken()
	if hold == nil {
		return
	}
	c.end(false)
	c.report(report{Event: done}.because(hold.Unlock()))
}

func (c *heldCall) downgrade() {
	hold := c.taken()
	if hold == nil {
		return
	}
	c.report(report{Event: shared})
	c.report(report{Event: downgraded}.because(c.h.locker.(sides).rw.Downgrade(context.Background(), hold)))
}

// taken returns the hold; nil, which is reported, if there is none.
func (c *heldCall) taken() *lockmw.Hold {
	c.h.mu.Lock()
	hold := c.hold
	c.h.mu.Unlock()
	if hold == nil {
		c.report(report{Event: failed}.because(errors.New("there is no hold yet")))
	}
	return hold
}

// watch looks at the hold's context without a pause until that has ended: whoever wakes after the end
// of the lease must see it at the first look, also before any timer has noticed.
func (c *heldCall) watch() {
	hold := c.taken()
	if hold == nil {
		return
	}
	c.report(report{Event: watching})
	for first := true; ; {
		before := time.Now()
		if c.ctx.Err() != nil {
			c.report(report{Event: watched})
			return
		}
		if first && !before.Before(hold.Deadline()) {
			first = false
			c.report(report{Event: late})
		}
	}
}

// report adds to r what is known of the call, and sends it.
func (c *heldCall) report(r report) {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	r.Call, r.Key, r.Reads, r.At = c.n, c.key, c.reads, machineTime(time.Now())
	if c.hold != nil {
		r.Token, r.Deadline = c.hold.Token(), machineTime(c.hold.Deadline())
	}
	_ = c.h.out.Encode(r) // the parent is gone, and this process about to be
}
