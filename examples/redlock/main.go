// Redlock shows a lock over five Redis servers. It works while two of them are down. With three down, no call gets the lock, and
// the lock is still never granted twice.
//
//	go run ./examples/redlock
//	go run ./examples/redlock -nodes a:6379,b:6379,c:6379
//
// Without -nodes it starts five embedded servers and kills three of them. With -nodes it uses your servers and kills none: stop
// some of them yourself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/redlock"
)

func main() {
	nodes := flag.String("nodes", "", "use the independent Redis servers at these `addresses`, separated by commas, instead of five embedded ones")
	phase := flag.Duration("phase", 2*time.Second, "duration of each phase")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	redis.SetLogger(&logging.VoidLogger{}) // killed servers are the point of this example
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, *nodes, *phase)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "redlock:", err)
		os.Exit(1)
	}
}

const usage = `Redlock sells one item under a lock over five Redis servers, and kills three of them one by one.

`

// run lets two processes take one lock in a loop while nodes die.
func run(ctx context.Context, out io.Writer, nodes string, phase time.Duration) error {
	addrs := strings.Split(nodes, ",")
	var servers []*miniredis.Miniredis
	var ends []func() // called at the end, the last one first
	defer func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}()
	if nodes == "" {
		addrs = nil
		for range 5 {
			s := miniredis.NewMiniRedis()
			s.ClockTTL(true)
			if err := s.Start(); err != nil {
				return err
			}
			ends = append(ends, s.Close)
			servers = append(servers, s)
			addrs = append(addrs, s.Addr())
		}
	}
	shared := &shop{}
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	for range 2 { // each with its own Clients, like two processes
		locks, closeAll, err := connect(addrs)
		if err != nil {
			return err
		}
		ends = append(ends, closeAll)
		for range 2 {
			workers.Go(func() { shared.work(ctx, locks) })
		}
	}
	phases := []struct {
		name string
		kill int // index of the server to kill at the start; -1: none
	}{{"all nodes", -1}, {"one is killed", 0}, {"two are killed", 1}, {"three are killed", 2}}
	for _, p := range phases {
		if p.kill >= 0 && p.kill < len(servers) {
			servers[p.kill].Close()
		} else if p.kill >= 0 {
			continue // real servers are not killed
		}
		before, failed := shared.sold.Load(), shared.unavailable.Load()
		select {
		case <-time.After(phase):
		case <-ctx.Done():
		}
		fmt.Fprintf(out, "%-17s %6d sold, %5d calls without a majority\n", p.name+":", shared.sold.Load()-before, shared.unavailable.Load()-failed)
	}
	cancel()
	workers.Wait()
	fmt.Fprintf(out, "sold at the same time: %d; tokens that decreased: %d\n", shared.overlaps.Load(), shared.wentBack.Load())
	if shared.overlaps.Load() > 0 || shared.wentBack.Load() > 0 {
		return errors.New("the lock was granted twice")
	}
	return nil
}

// connect returns a Locker with its own Clients.
func connect(addrs []string) (*redlock.Locker, func(), error) {
	var nodes []*lockmw.Client
	var clients []*redis.Client
	closeNodes := func() {
		for i, c := range nodes {
			_ = c.Close()
			_ = clients[i].Close()
		}
	}
	for _, addr := range addrs {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		c, err := lockmw.New(rdb, lockmw.WithLease(time.Second),
			lockmw.WithLogger(slog.New(slog.DiscardHandler))) // calls return their errors
		if err != nil {
			_ = rdb.Close()
			closeNodes()
			return nil, nil, err
		}
		nodes, clients = append(nodes, c), append(clients, rdb)
	}
	locks := redlock.New(nodes)
	return locks, func() { _ = locks.Close(); closeNodes() }, nil
}

// A shop sells one item at a time and counts overlapping sales.
type shop struct {
	selling, sold, unavailable, overlaps, wentBack atomic.Int64

	mu   sync.Mutex
	last int64 // largest token so far
}

// work sells until ctx ends.
func (s *shop) work(ctx context.Context, locks lockmw.Locker) {
	for ctx.Err() == nil {
		held, hold, err := locks.Lock(ctx, lockmw.Key("item", "7"), lockmw.WithWait(200*time.Millisecond))
		switch {
		case errors.Is(err, lockmw.ErrUnavailable):
			s.unavailable.Add(1)
			continue
		case err != nil:
			continue // busy, or the run has ended
		}
		if s.selling.Add(1) > 1 && held.Err() == nil {
			s.overlaps.Add(1)
		}
		s.mu.Lock()
		if hold.Token() <= s.last {
			s.wentBack.Add(1)
		}
		s.last = max(s.last, hold.Token())
		s.mu.Unlock()
		s.sold.Add(1)
		s.selling.Add(-1)
		_ = hold.Unlock() // a node that has died cannot confirm
	}
}
