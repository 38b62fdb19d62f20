package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/lockmw/go/lockmw"
)

// The amounts of measurement, and the limits for a warning.
const (
	scriptCalls = 1000                   // commands in a script
	slowCall    = 10 * time.Microsecond  // limit for one command; an idle server takes less than 1 us
	pairs       = 50                     // locks taken and released
	slowPair    = 20 * time.Millisecond  // limit for one lock: each request with a lock takes this much longer
	handOvers   = 20                     // maximum number of hand-overs between two Clients
	enough      = 2 * time.Second        // maximum total time of the hand-overs
	slowHand    = 100 * time.Millisecond // limit for a hand-over: at most ten of them a second per key
)

// checkScripts measures the speed of scripts without the round trip to the server.
func (e *examination) checkScripts(ctx context.Context) {
	tag, err := e.tagAt(ctx, e.firstMaster())
	var ways, runs []time.Duration
	for range 5 {
		if err != nil {
			break
		}
		begun := time.Now()
		if err = e.rdb.Eval(ctx, "return 1", []string{e.options.Prefix + ":" + tag}).Err(); err == nil {
			ways = append(ways, time.Since(begun))
			begun = time.Now()
			err = e.rdb.Eval(ctx, "for i = 1, tonumber(ARGV[1]) do redis.call('EXISTS', KEYS[1]) end return 1", []string{e.options.Prefix + ":" + tag}, scriptCalls).Err()
			runs = append(runs, time.Since(begun))
		}
	}
	if err != nil {
		e.note(Failure, Remedy(err), "%v", err)
		return
	}
	each := max(median(runs)-median(ways), 0) / scriptCalls
	if each > slowCall {
		e.note(Warning, "check the other load of the server, whether MONITOR runs, and its CPU", "a command in a script takes %v", each)
		return
	}
	e.note(OK, "", "a command in a script takes %v, a round trip %v", each, round(median(ways)))
}

// newClient returns a Client for the keys of the check.
func (e *examination) newClient() (*lockmw.Client, error) {
	opts := []lockmw.ClientOption{
		lockmw.WithPrefix(e.options.Prefix), lockmw.WithLogger(slog.New(slog.DiscardHandler)), lockmw.WithLease(e.options.Lease),
		lockmw.WithWait(e.patience),
	}
	if e.options.SlottedKeys {
		opts = append(opts, lockmw.WithSlottedKeys())
	}
	return lockmw.New(e.rdb, opts...)
}

// checkLock measures the time of an uncontended lock.
func (e *examination) checkLock(ctx context.Context) {
	took, err := e.timePairs(ctx)
	switch middle := median(took); {
	case err != nil:
		e.note(Failure, Remedy(err), "%v", err)
	case middle > slowPair:
		e.note(Warning, "run the server closer to its clients", "acquire and release take %v, the slowest of %d took %v", round(middle), pairs, round(took[len(took)-1]))
	default:
		e.note(OK, "", "acquire and release take %v, the slowest of %d took %v", round(middle), pairs, round(took[len(took)-1]))
	}
}

func (e *examination) timePairs(ctx context.Context) (took []time.Duration, err error) {
	locks, err := e.newClient()
	if err != nil {
		return nil, err
	}
	defer locks.Close()
	return TimePairs(ctx, locks, lockmw.Key("doctor", rand.Text()), func(n int) bool { return n < pairs })
}

// TimePairs takes and releases a free lock, and returns the time of each pair. more reports whether to continue after n pairs. One
// pair before the first is not measured, because it loads the scripts.
func TimePairs(ctx context.Context, locks *lockmw.Client, key string, more func(n int) bool) (took []time.Duration, err error) {
	for i := 0; i == 0 || more(len(took)); i++ {
		begun := time.Now()
		_, hold, err := locks.TryLock(ctx, key)
		if err == nil {
			_, err = unlock(hold)
		}
		if err != nil {
			return nil, err
		}
		if i > 0 {
			took = append(took, time.Since(begun))
		}
	}
	return took, nil
}

// unlock releases a hold. It returns false if the lease ran out first, which is no error: the server, the network or this process
// was slower than that.
func unlock(hold *lockmw.Hold) (inTime bool, err error) {
	deadline := hold.Deadline()
	err = hold.Unlock()
	if errors.Is(err, lockmw.ErrLost) && !time.Now().Before(deadline) {
		return false, nil
	}
	return true, err
}

// checkHandOver measures the time from a release in one Client to the grant in another.
func (e *examination) checkHandOver(ctx context.Context) {
	took, err := e.timeHandOvers(ctx)
	switch middle := median(took); {
	case err != nil:
		e.note(Failure, Remedy(err), "%v", err)
	case middle > slowHand:
		e.note(Warning, "see the finding about messages", "release to next grant takes %v: waiting calls must poll", round(middle))
	default:
		e.note(OK, "", "release to next grant takes %v, the slowest of %d took %v", round(middle), len(took), round(took[len(took)-1]))
	}
}

func (e *examination) timeHandOvers(ctx context.Context) (took []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 4*e.patience)
	defer cancel()
	one, err := e.newClient()
	if err != nil {
		return nil, err
	}
	defer one.Close()
	other, err := e.newClient()
	if err != nil {
		return nil, err
	}
	defer other.Close()
	started := time.Now()
	return TimeHandOvers(ctx, [2]*lockmw.Client{one, other}, lockmw.Key("doctor", rand.Text()), func(n int) bool {
		return n < handOvers && (n < 1 || time.Since(started) < enough)
	})
}

// TimeHandOvers passes a lock between two Clients, and returns each time from a release to the next grant. more reports whether
// to continue after n hand-overs. One hand-over before the first is not measured, because it includes the subscription; nor is a
// grant after the end of a lease.
func TimeHandOvers(ctx context.Context, two [2]*lockmw.Client, key string, more func(n int) bool) (took []time.Duration, err error) {
	_, hold, err := two[0].Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	for i := 0; i == 0 || more(len(took)); i++ {
		type grant struct {
			hold *lockmw.Hold
			err  error
			at   time.Time
		}
		waits, granted := make(chan struct{}), make(chan grant, 1)
		observer := &lockmw.Observer{Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { close(waits) }}
		go func() {
			_, hold, err := two[(i+1)%2].Lock(ctx, key, lockmw.WithObserver(observer))
			granted <- grant{hold, err, time.Now()}
		}()
		select {
		case <-waits:
		case g := <-granted: // the call failed, or the lease of the hold has run out
			granted <- g
		}
		begun := time.Now()
		inTime, unlockErr := unlock(hold)
		g := <-granted
		if err := cmp.Or(g.err, unlockErr); err != nil {
			return nil, err
		}
		hold = g.hold
		if i > 0 && inTime {
			took = append(took, max(g.at.Sub(begun), 0))
		}
	}
	_, err = unlock(hold)
	return took, err
}
