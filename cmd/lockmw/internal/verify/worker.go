package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/internal/process"
	"github.com/lockmw/go/internal/wire"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/semaphore"
)

// A Dial connects to an address of the server, with TLS if the address needs it.
type Dial func(ctx context.Context, addr string) (net.Conn, error)

// A Connect returns a client of the address in Options. Its connections go through the Wire that through makes. Connect must not
// send commands.
type Connect func(address json.RawMessage, through func(Dial) *wire.Wire) (redis.UniversalClient, error)

// Main lets Run start this program again as a worker process: main and TestMain call it before anything else.
func Main(connect Connect) {
	process.ChildMain(func(_ string, orders *json.Decoder, reports *json.Encoder) error {
		signal.Ignore(os.Interrupt, syscall.SIGTERM) // the parent ends it
		return work(connect, orders, reports)
	})
}

// A worker takes locks in a process of its own.
type worker struct {
	setup
	locks  *lockmw.Client
	rw     *rwlock.Locker
	kinds  map[Kind]lockmw.Locker
	wire   *wire.Wire
	budget *budget
	pace   *judge.Pace
	ctx    context.Context // ends with the orders
	wg     sync.WaitGroup
	calls  atomic.Int64

	mu  sync.Mutex
	out *json.Encoder

	resting atomic.Bool
	held    map[int]context.CancelFunc // calls of orders
}

func work(connect Connect, orders *json.Decoder, reports *json.Encoder) error {
	w := &worker{out: reports, held: make(map[int]context.CancelFunc)}
	if err := orders.Decode(&w.setup); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	w.ctx = ctx
	w.budget = newBudget(w.Cost, w.Share)
	pace, ends := judge.NewPace()
	defer ends()
	w.pace = pace
	rdb, err := connect(w.Address, func(dial Dial) *wire.Wire {
		w.wire = wire.New(dial)
		watchScripts(w.wire, w.budget, w.wrote)
		return w.wire
	})
	if err != nil {
		return err
	}
	defer rdb.Close()
	if err := w.open(rdb); err != nil {
		return err
	}
	defer w.locks.Close()
	w.report(&report{Report: judge.Report{Event: ready}})
	err = w.follow(orders)
	stop()
	w.wg.Wait()
	w.report(&report{Report: judge.Report{Event: wrote}, Scripts: w.budget.spent()})
	return err
}

// options are the options of every Client of a run.
func (s *setup) options() []lockmw.ClientOption {
	opts := []lockmw.ClientOption{lockmw.WithPrefix(s.Prefix), lockmw.WithLease(s.Lease), lockmw.WithLogger(slog.New(slog.DiscardHandler))}
	if s.SlottedKeys {
		opts = append(opts, lockmw.WithSlottedKeys())
	}
	if s.Replicas > 0 {
		opts = append(opts, lockmw.WithReplicas(s.Replicas, time.Second))
	}
	return opts
}

func (w *worker) open(rdb redis.UniversalClient) (err error) {
	w.locks, err = lockmw.New(rdb, w.options()...)
	if err != nil {
		return err
	}
	w.rw = rwlock.New(w.locks)
	w.kinds = map[Kind]lockmw.Locker{
		Plain: w.locks, Fair: fairlock.New(w.locks), Write: w.rw, Read: w.rw.RLocker(), Permit: semaphore.New(w.locks, permits),
	}
	return nil
}

func (w *worker) report(r *report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(r) // fails only if the parent is gone; then this process ends too
}

// wrote reports keys that a script may write.
func (w *worker) wrote(keys []string) {
	if len(keys) > 0 {
		w.report(&report{Report: judge.Report{Event: wrote}, Wrote: keys})
	}
}

// follow follows orders until they end.
func (w *worker) follow(orders *json.Decoder) error {
	working := false
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return err // io.EOF at the end
		}
		switch o.Do {
		case doWork:
			w.resting.Store(false)
			if !working {
				working = true
				w.start()
			}
		case doRest:
			w.resting.Store(true)
		case doHold:
			ctx, release := context.WithCancel(context.Background())
			w.held[o.N] = release
			w.wg.Go(func() {
				defer context.AfterFunc(w.ctx, release)()
				w.hold(ctx, o)
			})
		case doRelease:
			if release := w.held[o.N]; release != nil {
				release()
				delete(w.held, o.N)
			}
		case doCut:
			w.wire.Cut()
		case doSilence:
			w.wire.Swallow()
		case doDelay:
			w.wire.Delay(o.For)
		case doCost:
			w.budget.setCost(o.For)
		case doLoseReplies:
			for range o.N {
				w.wire.LoseReply("evalsha")
			}
		case doRestore:
			w.wire.Restore()
		default:
			return fmt.Errorf("there is no order %q", o.Do)
		}
	}
}

// start starts the goroutines that take locks at random.
func (w *worker) start() {
	const each = 2
	for _, kind := range []Kind{Plain, Fair, Read, Permit} {
		for range each {
			w.wg.Go(func() {
				for w.budget.wait(w.ctx) {
					if w.resting.Load() {
						pause.For(w.ctx, 50*time.Millisecond)
						continue
					}
					w.call(w.plan(kind))
				}
			})
		}
	}
}
