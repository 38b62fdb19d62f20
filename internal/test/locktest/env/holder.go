package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockmw/go/internal/test/locktest/judge"
	"github.com/lockmw/go/lockmw"
)

// An Order tells a holder what to do.
type Order struct {
	Do    string // "lock", "cancel", "watch", "downgrade" or "unlock"
	Call  int    // names the call for a lock, and the hold that comes of it
	Key   string
	Lease time.Duration // 0: the default
	Side  string        // "read" or "write"; "": the one that is tested
}

// A Holder is a child that does with locks what it is told.
type Holder struct {
	Locker lockmw.Locker
	Calls  map[int]*HeldCall

	mu  sync.Mutex // guards what is below, and the state of the calls
	Out *json.Encoder
	Wg  sync.WaitGroup
}

// A HeldCall is a call for a lock, and the hold that came of it.
type HeldCall struct {
	H      *Holder
	N      int
	Key    string
	side   string
	Cancel context.CancelFunc

	ctx   context.Context
	hold  *lockmw.Hold // nil before it is granted
	reads bool         // it was taken for reading
	over  bool         // its end is reported
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

// Follow does what an order says.
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
		return fmt.Errorf("an order that cannot be followed: %+v", o)
	}
	return nil
}

// Lock waits for the lock, and then for the end of the hold's context.
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
	c.ctx, c.hold, c.reads = inner, hold, judge.Reads(locker)
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
	c.report(judge.Report{Event: judge.Downgraded}.Because(c.H.Locker.(Sides).RW.Downgrade(context.Background(), hold)))
}

// taken returns the hold; nil, which is reported, if there is none.
func (c *HeldCall) taken() *lockmw.Hold {
	c.H.mu.Lock()
	hold := c.hold
	c.H.mu.Unlock()
	if hold == nil {
		c.report(judge.Report{Event: judge.Failed}.Because(errors.New("there is no hold yet")))
	}
	return hold
}

// watch looks at the hold's context without a pause until that has ended: whoever wakes after the end
// of the lease must see it at the first look, also before any timer has noticed.
func (c *HeldCall) watch() {
	hold := c.taken()
	if hold == nil {
		return
	}
	c.report(judge.Report{Event: judge.Watching})
	for first := true; ; {
		before := time.Now()
		if c.ctx.Err() != nil {
			c.report(judge.Report{Event: judge.Watched})
			return
		}
		if first && !before.Before(hold.Deadline()) {
			first = false
			c.report(judge.Report{Event: judge.Late})
		}
	}
}

// report adds to r what is known of the call, and sends it.
func (c *HeldCall) report(r judge.Report) {
	c.H.mu.Lock()
	defer c.H.mu.Unlock()
	r.Call, r.Key, r.Reads, r.At = c.N, c.Key, c.reads, judge.MachineTime(time.Now())
	if c.hold != nil {
		r.Token, r.Deadline = c.hold.Token(), judge.MachineTime(c.hold.Deadline())
	}
	_ = c.H.Out.Encode(r) // the parent is gone, and this process about to be
}
