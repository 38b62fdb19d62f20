package ticks

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// jobKey is the job of all tests, each of which has its own server.
const jobKey = "report:hourly"

// realLease is short, so that a crash delays no call for long.
const realLease = 2 * time.Second

// patience bounds waits on a busy machine.
const patience = 2 * time.Minute

// A childSpec describes a replica in its own process.
type childSpec struct {
	Addr string        // of the server
	Skew time.Duration // how far its clock is ahead
}

// An order makes a replica call Once for the tick by its clock, or ends the run. The ticks are an hour apart, and First is one
// of them.
type order struct {
	Finish bool
	First  time.Time
}

// A report is the progress of a call.
type report struct {
	Event string // "waits", "runs", "is cut short" or "returned"
	Ran   bool
	Err   string // an ErrorType, or the text
}

// live runs a replica.
func (s childSpec) live(orders *json.Decoder, reports *json.Encoder) error {
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer rdb.Close()
	locks, err := lockmw.New(rdb, lockmw.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer locks.Close()
	var mu sync.Mutex
	say := func(r report) {
		mu.Lock()
		defer mu.Unlock()
		_ = reports.Encode(r)
	}
	finish := make(chan struct{}, 1)
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return err
		}
		if o.Finish {
			finish <- struct{}{}
			continue
		}
		wg.Go(func() { s.call(locks, o.First, say, finish) })
	}
}

// call calls Once as a scheduler with the replica's clock does.
func (s childSpec) call(locks *lockmw.Client, first time.Time, say func(report), finish <-chan struct{}) {
	now := time.Now().Add(s.Skew)
	tick := lockmw.Tick{At: first.Add(now.Sub(first).Round(time.Hour)), Within: time.Hour / 2}
	waits := lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { say(report{Event: "waits"}) },
	})
	ran, err := lockmw.Once(context.Background(), locks, jobKey, tick, func(ctx context.Context) error {
		say(report{Event: "runs"})
		select {
		case <-finish:
			return nil
		case <-ctx.Done():
			say(report{Event: "is cut short"})
			return ctx.Err()
		}
	}, lockmw.WithLease(realLease), waits)
	r := report{Event: "returned", Ran: ran}
	if err != nil {
		r.Err = err.Error()
	}
	if e, ok := errors.AsType[*lockmw.Error](err); ok {
		r.Err = e.ErrorType()
	}
	say(r)
}

// A replica is a child process from the view of a test.
type replica struct {
	*redistest.Child
	t *testing.T
}

func startReplica(t *testing.T, s *redistest.Server, skew time.Duration) *replica {
	t.Helper()
	return &replica{redistest.StartChild(t, childSpec{Addr: s.Addr(), Skew: skew}), t}
}

// underWay starts replicas of one server: the first one runs the tick, and the others wait for it.
func underWay(t *testing.T, waiting int) (s *redistest.Server, first *replica, others []*replica) {
	t.Helper()
	s = redistest.Redis(t)
	for range 1 + waiting {
		others = append(others, startReplica(t, s, 0))
	}
	first, others = others[0], others[1:]
	first.calls()
	first.wants(report{Event: "runs"})
	for _, r := range others { // in this order
		r.calls()
		r.wants(report{Event: "waits"})
	}
	return s, first, others
}

// started is when the test binary started: a tick.
var started = time.Now()

// calls makes the replica call Once for a tick that lasts longer than the test.
func (r *replica) calls() { r.Order(order{First: started}) }

func (r *replica) finishes() { r.Order(order{Finish: true}) }

// says returns the next report.
func (r *replica) says() report {
	r.t.Helper()
	select {
	case raw, ok := <-r.Reports():
		var got report
		if !ok || json.Unmarshal(raw, &got) != nil {
			r.t.Fatalf("a replica ended: %q", raw)
		}
		return got
	case <-time.After(patience):
		r.t.Fatal("a replica reports nothing")
		panic("unreachable")
	}
}

// wants checks the next report.
func (r *replica) wants(want report) {
	r.t.Helper()
	if got := r.says(); got != want {
		r.t.Errorf("a replica reports %+v, want %+v", got, want)
	}
}
