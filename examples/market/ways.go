package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockmw/go/examples/internal/redisserver"
	"github.com/lockmw/go/lockmw"
)

// A guard lists and buys for one contender. Each call of list and buy is one try.
type guard interface {
	list(ctx context.Context, o offer) (outcome, error)
	look(ctx context.Context, price int64) (offer, bool, error)
	buy(ctx context.Context, o offer, buyer string) (outcome, error)
}

// A way is a kind of guard that -ways can name.
type way struct {
	name, title string
	guarded     bool // money and items must be conserved
	locks       bool // needs a lockmw.Client
	open        func(m *market, locks *lockmw.Client) guard
}

// ways are in the order of the tables.
var ways = []way{
	{"none", "no guard", false, false, func(m *market, _ *lockmw.Client) guard { return m }},
	{"watch", "WATCH, MULTI, EXEC", true, false, func(m *market, _ *lockmw.Client) guard { return watched{m} }},
	{"coarse", "one lock on the market", true, true, newCoarse},
	{"rw", "… that readers share", true, true, newShared},
	{"fine", "a lock for each item", true, true, newFine},
	{"lua", "a Lua script", true, false, func(m *market, _ *lockmw.Client) guard { return scripted{m} }},
}

func wayNames() (names []string) {
	for _, w := range ways {
		names = append(names, w.name)
	}
	return names
}

var _ guard = (*market)(nil) // without any guard

// patience is how long a call waits for a lock. It is long enough for a short outage of Redis.
const patience = 10 * time.Second

// A contender is a seller or a buyer. Like a process of its own, it shares only Redis with others. With a shared Client,
// contenders would pass locks on to each other without a command.
type contender struct {
	guard
	market *market
	locks  *lockmw.Client // nil if its way does not lock
}

// newContender returns a contender. Close it even after an error.
func (w *way) newContender(ctx context.Context, name string, server *redisserver.Server) (*contender, error) {
	rdb := server.NewClient()
	c := &contender{market: &market{name: name, rdb: rdb, embedded: server.Embedded()}}
	if err := rdb.Ping(ctx).Err(); err != nil {
		return c, err
	}
	if w.locks {
		locks, err := lockmw.New(rdb, lockmw.WithPrefix(name),
			lockmw.WithWait(patience),
			lockmw.WithLogger(slog.New(slog.DiscardHandler))) // calls return their errors
		if err != nil {
			return c, fmt.Errorf("locks: %w", err)
		}
		c.locks = locks
	}
	c.guard = w.open(c.market, c.locks)
	return c, nil
}

// close closes the locks and the connections.
func (c *contender) close() error {
	var err error
	if c.locks != nil {
		err = c.locks.Close()
	}
	return errors.Join(err, c.market.rdb.Close())
}
