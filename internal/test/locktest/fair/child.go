package fair

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// Roles has the role of a holder process whose calls take options.
var Roles = env.Roles{queuerRole: beQueuer}

const queuerRole = "queuer"

// An order is an env.Order with options for the call.
type order struct {
	env.Order
	Name   string // shown in the queue
	Ticket string // "": no kept place
	Keep   time.Duration
}

// options returns the options of the call.
func (o *order) options() []lockmw.Option {
	opts := []lockmw.Option{lockmw.WithObserver(&lockmw.Observer{
		TraceParent: func(context.Context) string { return o.Name },
	})}
	if o.Ticket != "" {
		opts = append(opts, lockmw.WithPlace(o.Ticket, o.Keep))
	}
	return opts
}

type optionsKey struct{}

// beQueuer runs a Holder whose Locker takes more options from the context.
func beQueuer(_ *lockmw.Client, locker lockmw.Locker, in *json.Decoder, out *json.Encoder) error {
	withOptions := func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		more, _ := ctx.Value(optionsKey{}).([]lockmw.Option)
		return locker.Lock(ctx, key, append(opts, more...)...)
	}
	h := &env.Holder{Locker: lockmw.LockerFunc(withOptions), Out: out, Calls: make(map[int]*env.HeldCall)}
	defer h.Wg.Wait()
	defer func() {
		for _, c := range h.Calls {
			c.Cancel()
		}
	}()
	for {
		var o order
		if err := in.Decode(&o); err != nil {
			return err
		}
		if o.Do != "lock" {
			if err := h.Follow(o.Order); err != nil {
				return err
			}
			continue
		}
		if h.Calls[o.Call] != nil {
			return errors.New("duplicate call number")
		}
		c := &env.HeldCall{H: h, N: o.Call, Key: o.Key}
		h.Calls[o.Call] = c
		var ctx context.Context
		ctx, c.Cancel = context.WithCancel(context.WithValue(context.Background(), optionsKey{}, o.options()))
		h.Wg.Go(func() { c.Lock(ctx, o.Lease) })
	}
}

// queuer starts a process with the role queuerRole.
func queuer(e *env.Env) *env.Process {
	e.T.Helper()
	e.Rec.KeepSpans()
	p := &env.Process{E: e, Over: make(chan struct{}), News: make(chan struct{})}
	p.Child = redistest.StartChild(e.TB, e.Server.Child(queuerRole))
	go p.Listen()
	return p
}

// ask makes a queuer call Lock. It is not safe for concurrent use.
func ask(p *env.Process, o order) *env.Remote {
	p.E.T.Helper()
	p.Mu.Lock()
	c := &env.Remote{P: p, N: len(p.Calls), Key: o.Key, Reports: make(map[string]judge.Report)}
	p.Calls = append(p.Calls, c)
	p.Mu.Unlock()
	o.Do, o.Call = "lock", c.N
	p.Child.Order(o)
	return c
}
