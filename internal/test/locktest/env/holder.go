package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

// An Order is a command for a holder process.
type Order struct {
	Do    string // "lock", "cancel", "watch", "downgrade" or "unlock"
	Call  int    // number of the call, and of its hold
	Key   string
	Lease time.Duration // 0: the default
	Side  string        // "read" or "write"; "": the side under test
}

// A Holder is a child process that takes and releases locks on order.
type Holder struct {
	Locker lockmw.Locker
	Calls  map[int]*HeldCall

	mu  sync.Mutex // guards the fields below and the state of the calls
	Out *json.Encoder
	Wg  sync.WaitGroup
}

// A HeldCall is a call for a lock and the hold that it received.
type HeldCall struct {
	H      *Holder
	N      int
	Key    string
	side   string
	Cancel context.CancelFunc

	ctx   context.Context
	hold  *lockmw.Hold // nil before the grant
	reads bool         // a read lock
	over  bool         // its end was reported
}

func hold(_ *lockmw.Client, locker lockmw.Locker, in *json.Decoder, out *json.Encoder) error {
	h := &Holder{Locker: locker, Out: out, Calls: make(map[int]*HeldCall)}
	defer h.Wg.Wait()
	defer func() {
		for _, c := range h.Calls {
			c.Cancel()
		}
	}()
	for {
		var o Order
		if err := in.Decode(&o); err != nil {
			return err
		}
		if err := h.Follow(o); err != nil {
			return err
		}
	}
}

// Follow carries out an order.
func (h *Holder) Follow(o Order) error {
	c := h.Calls[o.Call]
	switch {
	case o.Do == "lock" && c == nil:
		c = &HeldCall{H: h, N: o.Call, Key: o.Key, side: o.Side}
		h.Calls[o.Call] = c
		var ctx context.Context
		ctx, c.Cancel = context.WithCancel(context.Background())
		h.Wg.Go(func() { c.Lock(ctx, o.Lease) })
	case o.Do == "cancel" && c != nil:
		c.Cancel()
	case o.Do == "watch" && c != nil:
		h.Wg.Go(c.watch)
	case o.Do == "downgrade" && c != nil:
		h.Wg.Go(c.downgrade)
	case o.Do == "unlock" && c != nil:
		h.Wg.Go(c.unlock)
	default:
		return fmt.Errorf("invalid order: %+v", o)
	}
	return nil
}

// Lock takes the lock, then waits until the hold's context ends.
func (c *HeldCall) Lock(ctx context.Context, lease time.Duration) {
	opts := []lockmw.Option{lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { c.report(judge.Report{Event: judge.Queued}) },
		Renewed: func(_ context.Context, _ lockmw.Attempt, err error) {
			if err == nil {
				c.report(judge.Report{Event: judge.Renewed})
			}
		},
	})}
	if lease > 0 {
		opts = append(opts, lockmw.WithLease(lease))
	}
	locker := c.H.Locker
	if c.side != "" {
		locker = locker.(Sides).Side(c.side == ReadMode)
	}
	inner, hold, err := locker.Lock(ctx, c.Key, opts...)
	if err != nil {
		c.report(judge.Report{Event: judge.Failed}.Because(err))
		return
	}
	c.H.mu.Lock()
	c.ctx, c.hold, c.reads = inner, hold, recording.Reads(locker)
	c.H.mu.Unlock()
	c.report(judge.Report{Event: judge.Granted})
	<-inner.Done()
	c.end(errors.Is(context.Cause(inner), lockmw.ErrLost))
}

// end reports the end of the hold, once.
func (c *HeldCall) end(lost bool) {
	c.H.mu.Lock()
	over := c.over
	c.over = true
	c.H.mu.Unlock()
	if !over {
		c.report(judge.Report{Event: judge.Ended, Lost: lost})
	}
}

func (c *HeldCall) unlock() {
	hold := c.taken()
	if hold == nil {
		return
	}
	c.end(false)
	c.report(judge.Report{Event: judge.Done}.Because(hold.Unlock()))
}

func (c *HeldCall) downgrade() {
	hold := c.taken()
	if hold == nil {
		return
	}
	c.report(judge.Report{Event: judge.Shared})
	c.report(judge.Report{Event: downgraded}.Because(c.H.Locker.(Sides).RW.Downgrade(context.Background(), hold)))
}

// taken returns the hold, or nil after reporting a failure.
func (c *HeldCall) taken() *lockmw.Hold {
	c.H.mu.Lock()
	hold := c.hold
	c.H.mu.Unlock()
	if hold == nil {
		c.report(judge.Report{Event: judge.Failed}.Because(errors.New("there is no hold yet")))
	}
	return hold
}

// The events of this package.
const (
	watching   = "watching"   // the child begins to poll the hold's context
	Watched    = "watched"    // … and saw its end
	downgraded = "downgraded" // Downgrade has returned
)

// watch polls the hold's context in a loop until it ends. If the process resumes after the end of the lease, the first
// check must already see the end, even before any timer has fired.
func (c *HeldCall) watch() {
	hold := c.taken()
	if hold == nil {
		return
	}
	c.report(judge.Report{Event: watching})
	for first := true; ; {
		before := time.Now()
		if c.ctx.Err() != nil {
			c.report(judge.Report{Event: Watched})
			return
		}
		if first && !before.Before(hold.Deadline()) {
			first = false
			c.report(judge.Report{Event: judge.Late})
		}
	}
}

// report completes r and sends it.
func (c *HeldCall) report(r judge.Report) {
	c.H.mu.Lock()
	defer c.H.mu.Unlock()
	r.Call, r.Key, r.Reads, r.At = c.N, c.Key, c.reads, judge.MachineTime(time.Now())
	if c.hold != nil {
		r.Token, r.Deadline = c.hold.Token(), judge.MachineTime(c.hold.Deadline())
	}
	_ = c.H.Out.Encode(r) // fails only if the parent is gone; then this process ends too
}
