package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/redlock"
)

// startNodes starts three embedded servers and returns their Clients. A program would connect to its own servers.
func startNodes() (servers []*miniredis.Miniredis, nodes []*lockmw.Client, stop func()) {
	var stops []func()
	for range 3 {
		server, err := miniredis.Run()
		if err != nil {
			panic(err)
		}
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
		node, err := lockmw.New(rdb, lockmw.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			panic(err)
		}
		servers, nodes = append(servers, server), append(nodes, node)
		stops = append(stops, func() {
			_ = errors.Join(node.Close(), rdb.Close())
			server.Close()
		})
	}
	return servers, nodes, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// A lock over three nodes. With one node down, locks are still granted. With two nodes down, a try fails instead of taking a lock
// that another process might also get.
func ExampleNew() {
	servers, nodes, stop := startNodes()
	defer stop()
	locks := redlock.New(nodes)
	defer locks.Close()

	sell := func(wait time.Duration) error {
		_, hold, err := locks.Lock(context.Background(), lockmw.Key("item", "7"), lockmw.WithWait(wait))
		if err != nil {
			return err
		}
		return hold.Unlock()
	}
	fmt.Println("all nodes:", sell(time.Minute))
	servers[2].Close()
	fmt.Println("one node down:", sell(time.Minute))
	servers[1].Close()
	fmt.Println("two nodes down: unavailable", errors.Is(sell(0), lockmw.ErrUnavailable))
	// Output:
	// all nodes: <nil>
	// one node down: <nil>
	// two nodes down: unavailable true
}

// The change from three nodes to five takes two steps.
func ExampleCheckStep() {
	three := redlock.Configuration{Nodes: []string{"a", "b", "c"}}
	step := redlock.Configuration{Nodes: []string{"a", "b", "c", "d", "e"}, Quorum: 4}
	five := redlock.Configuration{Nodes: []string{"a", "b", "c", "d", "e"}}

	fmt.Println("3 to 5:", redlock.CheckStep(three, five))
	fmt.Println("3 to 5 with quorum 4:", redlock.CheckStep(three, step))
	fmt.Println("then quorum 3:", redlock.CheckStep(step, five))
	// Output:
	// 3 to 5: lockmw: invalid option: redlock: a quorum of 2 of 3 nodes and a quorum of 3 of 5 may have no node in common, so two calls could hold a lock: add a step between them
	// 3 to 5 with quorum 4: <nil>
	// then quorum 3: <nil>
}
