package interrupt

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/lockmw/go/internal/test/redistest"
)

// A Call does the work of a key, unless that was done before.
type Call func(ctx context.Context, key string) (answer string, err error)

// An order makes a child do one call, or continue a call that halts.
type order struct {
	Key     string
	Halt    place
	Proceed bool // instead of a call
}

// A report says that a call halts, or how it has ended.
type report struct {
	Halted  bool
	Outcome *Outcome
	Points  []string // that the call has passed
}

// ChildMain is redistest.ChildMain for child processes that Play starts: TestMain calls it before anything else. open returns what a
// child with that spec calls, and a function that closes it.
func ChildMain[Spec any](open func(spec Spec, s *Steps) (call Call, end func() error, err error)) {
	redistest.ChildMain(func(spec Spec, orders *json.Decoder, reports *json.Encoder) error {
		s := &Steps{reports: &reporter{out: reports}}
		call, end, err := open(spec, s)
		if err != nil {
			return err
		}
		return errors.Join(s.serve(call, orders), end())
	})
}

// serve does calls until the orders end.
func (s *Steps) serve(call Call, orders *json.Decoder) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	defer s.proceed()
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return err
		}
		if o.Proceed {
			s.proceed()
			continue
		}
		calls.Wait() // one at a time
		calls.Go(func() {
			s.begin(o.Halt)
			got := OutcomeOf(call(context.Background(), o.Key))
			s.reports.send(report{Outcome: &got, Points: s.points()})
		})
	}
}
