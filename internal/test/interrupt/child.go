package interrupt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
)

// A Call does the work of a key, unless that was done before.
type Call func(ctx context.Context, key string) (answer string, err error)

// An order makes a child do one call, continue a call that halts, or walk.
type order struct {
	Key     string
	Halt    place
	Proceed bool  // instead of a call
	Walk    *walk // instead of a call
}

// A report says that a call halts, or how it has ended.
type report struct {
	Halted  bool
	Outcome *Outcome
	Points  []string // that the call has passed
	At      int      // of a walk: the number of the key
	Walked  bool     // a walk has ended
}

// ChildMain is redistest.ChildMain for child processes that Play and Storm start: TestMain calls it before anything else. open
// returns what a child with that spec calls, and a function that closes it.
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
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
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
			if o.Walk != nil {
				s.walk(ctx, call, o.Walk)
				return
			}
			s.begin(o.Halt)
			got := OutcomeOf(call(ctx, o.Key))
			s.reports.send(report{Outcome: &got, Points: s.points()})
		})
	}
}

// A walk is what the clients of one child do: each of them goes from key to key, and repeats the call of each. A call that meets a
// run in flight does not count.
type walk struct{ From, Keys, Retries, Clients int }

// inFlightPause is how long a client waits after a call that met a run in flight.
const inFlightPause = 20 * time.Millisecond

func (s *Steps) walk(ctx context.Context, call Call, w *walk) {
	s.ignore()
	var clients sync.WaitGroup
	for range w.Clients {
		clients.Go(func() {
			for i := w.From * w.Retries; i < w.Keys*w.Retries && ctx.Err() == nil; {
				n := i / w.Retries
				got := OutcomeOf(call(ctx, StormKey(n)))
				s.reports.send(report{Outcome: &got, At: n})
				if got.Kind == InFlight {
					<-time.After(inFlightPause)
				} else {
					i++
				}
			}
		})
	}
	clients.Wait()
	s.reports.send(report{Walked: true})
}

// StormKey returns the key with that number.
func StormKey(n int) string { return fmt.Sprintf("key-%d", n) }
