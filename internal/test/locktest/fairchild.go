package locktest

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

func init() { roles["queuer"] = queuerRole }

// A fairOrder is an order to a queuer: a holder that can be told how to wait.
type fairOrder struct {
	order
	Name   string        // by which the queue shows the call
	Wait   time.Duration // 0: until it is cancelled
	Ticket string        // "": none
	Keep   time.Duration
}

// options are those of the call.
func (o *fairOrder) options() []lockmw.Option {
	opts := []lockmw.Option{lockmw.WithObserver(&lockmw.Observer{
		TraceParent: func(context.Context) string { return o.Name },
	})}
	if o.Wait > 0 {
		opts = append(opts, lockmw.WithWait(o.Wait))
	}
	if o.Ticket != "" {
		opts = append(opts, lockmw.WithPlace(o.Ticket, o.Keep))
	}
	return opts
}

type optionsKey struct{}

// queuerRole is holderRole with more options, which the Locker finds in the context.
func queuerRole(_ *lockmw.Client, locker lockmw.Locker, in *json.Decoder, out *json.Encoder) error {
	withOptions := func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		more, _ := ctx.Value(optionsKey{}).([]lockmw.Option)
		return locker.Lock(ctx, key, append(opts, more...)...)
	}
	h := &holder{locker: lockmw.LockerFunc(withOptions), out: out, calls: make(map[int]*heldCall)}
	defer h.wg.Wait()
	defer func() {
		for _, c := range h.calls {
			c.cancel()
		}
	}()
	for {
		var o fairOrder
		if err := in.Decode(&o); err != nil {
			return err
		}
		if o.Do != "lock" {
			if err := h.follow(o.order); err != nil {
				return err
			}
			continue
		}
		if h.calls[o.Call] != nil {
			return errors.New("two calls with one number")
		}
		c := &heldCall{h: h, n: o.Call, key: o.Key}
		h.calls[o.Call] = c
		var ctx context.Context
		ctx, c.cancel = context.WithCancel(context.WithValue(context.Background(), optionsKey{}, o.options()))
		h.wg.Go(func() { c.lock(ctx, o.Lease) })
	}
}

// queuer starts a process whose calls can be told how to wait.
func (e *env) queuer() *process {
	e.t.Helper()
	e.rec.KeepSpans()
	p := &process{e: e, over: make(chan struct{}), news: make(chan struct{})}
	p.child = redistest.StartChild(e.tb, childSpec{Role: "queuer", Addr: e.server.Addr(), Prefix: e.prefix, Kind: e.cfg.kind()})
	go p.listen()
	return p
}

// ask has a queuer ask for a lock. Not safe for concurrent use.
func (p *process) ask(o fairOrder) *remote {
	p.e.t.Helper()
	p.mu.Lock()
	c := &remote{p: p, n: len(p.calls), key: o.Key, said: make(map[string]report)}
	p.calls = append(p.calls, c)
	p.mu.Unlock()
	o.Do, o.Call = "lock", c.n
	p.child.Order(o)
	return c
}
