package lockmw_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// nodes is another implementation of locks, which another package may bring.
type nodes struct {
	requests  []*core.Request
	meanwhile func(core.Events) // happens before a request is answered; may be nil
	fail      error
	expired   func() bool // says whether the lease of a hold has run out; nil: it never does
	released  int
}

func (n *nodes) Acquire(_ context.Context, r *core.Request) (core.Hold, error) {
	n.requests = append(n.requests, r)
	if n.meanwhile != nil {
		n.meanwhile(r.Events)
	}
	if n.fail != nil {
		return nil, &core.AcquireError{Err: n.fail, Holders: []core.Holder{{Owner: "o", Process: "p", TraceParent: "t", Token: 5, TTL: time.Second}}}
	}
	return &nodesHold{nodes: n}, nil
}

type nodesHold struct{ nodes *nodes }

func (*nodesHold) Token() int64                                { return 17 }
func (*nodesHold) Deadline() clock.Instant                     { return 0 }
func (*nodesHold) Extend(context.Context, time.Duration) error { return errors.ErrUnsupported }
func (*nodesHold) KeepTaken(time.Duration)                     {}
func (*nodesHold) Downgrade(context.Context) error             { return errors.ErrUnsupported }

func (h *nodesHold) Expired() bool { return h.nodes.expired != nil && h.nodes.expired() }

func (h *nodesHold) Release(time.Duration) (int, error) {
	h.nodes.released++
	return 0, nil
}

// overLocks returns a Locker over n.
func overLocks(t *testing.T, n core.Locks, kind core.Kind, opts ...lockmw.ClientOption) lockmw.Locker {
	t.Helper()
	l, err := lockmw.OverLocks(n, kind, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestOverLocksGivesAnImplementationWhatAllKindsShare(t *testing.T) {
	n := &nodes{}
	var modes []string
	observer := &lockmw.Observer{Start: func(ctx context.Context, a lockmw.Attempt) context.Context {
		modes = append(modes, a.Mode)
		return ctx
	}}
	l := overLocks(t, n, core.Kind{Mode: core.Write}, lockmw.WithLease(time.Hour), lockmw.WithObserver(observer))
	ctx, outer := usertest.Lock(t, t.Context(), l, "k", lockmw.WithWait(time.Minute))
	_, inner := usertest.Lock(t, ctx, l, "k", lockmw.WithWait(0))
	if len(n.requests) != 1 {
		t.Fatalf("%d requests, want one: the nested call re-enters", len(n.requests))
	}
	if r := n.requests[0]; r.Mode != core.Write || r.Lease != time.Hour || r.Wait != time.Minute || r.Key != "k" {
		t.Errorf("the request is %+v", r)
	}
	if outer.Token() != 17 || len(modes) != 1 || modes[0] != "write" {
		t.Errorf("token %d, observed %q", outer.Token(), modes)
	}
	if err := errors.Join(outer.Unlock(), inner.Unlock()); err != nil || n.released != 1 || ctx.Err() == nil {
		t.Errorf("Unlock: %v, %d released, the context: %v", err, n.released, ctx.Err())
	}
}

func TestOverLocksTellsWhoIsInTheWay(t *testing.T) {
	l := overLocks(t, &nodes{fail: core.ErrBusy}, core.Kind{})
	_, _, err := l.Lock(t.Context(), "k")
	failure, ok := errors.AsType[*lockmw.Error](err)
	if !ok || !errors.Is(err, lockmw.ErrBusy) {
		t.Fatalf("%v, want ErrBusy", err)
	}
	want := lockmw.Holder{Owner: "o", Process: "p", TraceParent: "t", Token: 5, TTL: time.Second}
	if len(failure.Holders) != 1 || failure.Holders[0] != want {
		t.Errorf("the holders are %+v, want %+v", failure.Holders, want)
	}
}

func TestOverLocksKeepsPlacesOfCallsWithPlacesOfTheirOwn(t *testing.T) {
	for own, want := range map[bool]error{true: nil, false: lockmw.ErrInvalidOption} {
		l := overLocks(t, &nodes{}, core.Kind{OwnTicket: own})
		if _, _, err := l.Lock(t.Context(), "k", lockmw.WithPlace("id", time.Minute)); !errors.Is(err, want) {
			t.Errorf("own tickets %t: %v, want %v", own, err, want)
		}
	}
}

func TestABackendThatCannotSaysUnsupported(t *testing.T) {
	_, hold := lockmw.NewHold(t.Context(), "k", 5, func(context.Context) error { return nil })
	err := hold.Extend(t.Context(), time.Minute)
	failure, ok := errors.AsType[*lockmw.Error](err)
	if !errors.Is(err, errors.ErrUnsupported) || errors.Is(err, lockmw.ErrUnavailable) || !ok || failure.ErrorType() != "lock_unsupported" {
		t.Errorf("Extend: %v, want errors.ErrUnsupported only", err)
	}
	usertest.Unlock(t, hold)
}
