// Migrate moves a service from redsync to lockmw under load, with package bridge. It counts how often two replicas sold the same
// item together.
//
//	go run ./examples/migrate
//
// The service has three versions, which differ only in newLock. The program runs each mixture of versions that a roll-out has, and
// the mixture that a direct switch would have. It exits with 1 if a mixture of the roll-out has an overlap.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/bridge"
	"github.com/lockmw/go/examples/internal/redisserver"
	"github.com/lockmw/go/lockmw"
)

func main() {
	addr := flag.String("redis", "", "use the Redis at this `address` instead of an embedded one")
	phase := flag.Duration("phase", 2*time.Second, "duration of each mixture")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, *addr, *phase)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "migrate:", err)
		os.Exit(1)
	}
}

// mixtures are the versions of the replicas that run together.
var mixtures = []struct {
	name     string
	versions []int
	wrong    bool // the versions do not exclude one another
}{
	{"before: redsync", []int{1, 1, 1, 1}, false},
	{"first deployment: redsync and bridge", []int{1, 1, 2, 2}, false},
	{"in between: bridge", []int{2, 2, 2, 2}, false},
	{"second deployment: bridge and lockmw", []int{2, 2, 3, 3}, false},
	{"after: lockmw", []int{3, 3, 3, 3}, false},
	{"direct switch: redsync and lockmw", []int{1, 1, 3, 3}, true},
}

// run plays all mixtures.
func run(ctx context.Context, out io.Writer, addr string, phase time.Duration) error {
	var addrs []string
	if addr != "" {
		addrs = []string{addr}
	}
	server, err := redisserver.Open(ctx, addrs, "")
	if err != nil {
		return err
	}
	defer server.Close()
	failed := false
	for _, m := range mixtures {
		s, err := sell(ctx, server, m.versions, phase)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-38s %6d sold, %5d at the same time\n", m.name, s.sold.Load(), s.overlaps.Load())
		failed = failed || s.overlaps.Load() > 0 && !m.wrong
	}
	if failed {
		return errors.New("two replicas sold the item at the same time")
	}
	return ctx.Err()
}

// sell runs replicas of these versions for a while.
func sell(ctx context.Context, server *redisserver.Server, versions []int, phase time.Duration) (*shop, error) {
	ctx, cancel := context.WithTimeout(ctx, phase)
	defer cancel()
	s := &shop{}
	var replicas sync.WaitGroup
	defer replicas.Wait()
	for _, v := range versions {
		lock, end, err := newLock(v, server.NewClient()) // like a process of its own
		if err != nil {
			cancel()
			return nil, err
		}
		replicas.Go(func() {
			defer end()
			s.work(ctx, lock)
		})
	}
	replicas.Wait()
	return s, nil
}

// underLock runs f under the lock of a key.
type underLock func(ctx context.Context, key string, f func(context.Context)) error

// newLock is the part of the service that changes.
func newLock(version int, rdb redis.UniversalClient) (lock underLock, end func(), err error) {
	if version == 1 {
		return oldLock(rdb), func() { _ = rdb.Close() }, nil
	}
	client, err := lockmw.New(rdb)
	if err != nil {
		return nil, nil, errors.Join(err, rdb.Close())
	}
	end = func() { _ = errors.Join(client.Close(), rdb.Close()) }
	locks := lockmw.Locker(client)
	if version == 2 {
		b := bridge.Redsync(client, rdb)
		end = func() { _ = client.Close(); b.Close(); _ = rdb.Close() }
		locks = b
	}
	return func(ctx context.Context, key string, f func(context.Context)) error {
		return lockmw.Do(ctx, locks, key, func(ctx context.Context) error {
			f(ctx)
			return nil
		})
	}, end, nil
}

// oldLock is the service before the move.
func oldLock(rdb redis.UniversalClient) underLock {
	rs := redsync.New(goredis.NewPool(rdb))
	return func(ctx context.Context, key string, f func(context.Context)) error {
		m := rs.NewMutex(key)
		if err := m.LockContext(ctx); err != nil {
			return err
		}
		f(ctx)
		_, err := m.UnlockContext(context.WithoutCancel(ctx))
		return err
	}
}

// A shop sells one item at a time and counts overlapping sales.
type shop struct{ selling, sold, overlaps atomic.Int64 }

// work sells until ctx ends.
func (s *shop) work(ctx context.Context, lock underLock) {
	for ctx.Err() == nil {
		_ = lock(ctx, "item:7", func(context.Context) { // an error is a busy lock, or the end
			if s.selling.Add(1) > 1 {
				s.overlaps.Add(1)
			}
			time.Sleep(time.Millisecond) // the sale
			s.sold.Add(1)
			s.selling.Add(-1)
		})
		time.Sleep(time.Millisecond) // the next customer
	}
}
