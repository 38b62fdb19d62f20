package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/examples/orders/internal/books"
	"github.com/lockmw/go/lockmw"
)

// Two processes work under the same lock: the master that granted it to the older one has died with its data, and the older
// one is not notified. After the first of them writes, the write of the other is refused.
func TestOnlyOneOfTwoHoldersWritesAfterAFailOver(t *testing.T) {
	onSeveralServers(t, func(t *testing.T, f *fleet) {
		b, err := books.Open(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		const slot = "any" // some key of the master that dies
		name := namesAt(f, f.master(slot))
		var clashes []*clash
		for _, olderFirst := range []bool{true, false} {
			item, user, parcel := name("item"), name("user"), name("item")
			if err := b.Offer(t.Context(), []string{item, item + "-1", item + "-2", parcel}, 1); err != nil {
				t.Fatal(err)
			}
			id := storeOrder(t, b, parcel)
			clashes = append(clashes,
				newClash("the last item", olderFirst, buys(item+"-ann", item), buys(item+"-bob", item)),
				newClash("a user's order", olderFirst, buys(user, item+"-1"), buys(user, item+"-2")),
				newClash("a parcel", olderFirst, ships(id, parcel), ships(id, parcel)))
		}

		wire := f.NewWire()
		older := shopOver(t, b, f.Universal(t, wire.Use))
		kill := f.cutOff(t, slot)
		for _, c := range clashes {
			c.older.begin(t, older)
		}
		wire.Cut()
		kill()
		newer := shopOver(t, b, f.Universal(t))
		for _, c := range clashes {
			c.newer.begin(t, newer)
		}
		for _, c := range clashes {
			t.Run(fmt.Sprintf("%s, the older one writes first: %t", c.name, c.olderFirst), c.end)
		}
		a, err := b.Audit(t.Context(), 1)
		if err != nil || a.Oversold+a.Duplicates+a.Twice > 0 || a.Shipped != 2 {
			t.Errorf("the audit is %+v, %v", a, err)
		}
	})
}

// namesAt returns a function that returns a new name each time, whose lock is at a node.
func namesAt(f *fleet, node int) func(kind string) string {
	n := 0
	return func(kind string) string {
		for {
			n++
			if name := fmt.Sprintf("%s-%d", kind, n); f.master(lockmw.Key(kind, name)) == node {
				return name
			}
		}
	}
}

// A clash is a pair of simultaneous calls that should have excluded each other.
type clash struct {
	name         string
	olderFirst   bool
	older, newer *call
}

func newClash(name string, olderFirst bool, older, newer action) *clash {
	return &clash{name, olderFirst, newCall(older), newCall(newer)}
}

func (c *clash) end(t *testing.T) {
	winner, loser := c.newer, c.older
	if c.olderFirst {
		winner, loser = c.older, c.newer
	}
	if err := winner.end(); err != nil {
		t.Errorf("the first write: %v", err)
	}
	if err := loser.end(); !errors.Is(err, books.ErrFenced) {
		t.Errorf("the second write: %v, want %v", err, books.ErrFenced)
	}
}

// An action is the work of a call under its lock.
type action func(ctx context.Context, s *shop) error

// A call waits in the bank or the carrier until it may write.
type call struct {
	action
	outside, write chan struct{}
	wrote          chan error
}

func newCall(a action) *call {
	return &call{a, make(chan struct{}), make(chan struct{}), make(chan error, 1)}
}

type callKey struct{}

func (c *call) begin(t *testing.T, s *shop) {
	t.Helper()
	go func() { c.wrote <- c.action(context.WithValue(t.Context(), callKey{}, c), s) }()
	select {
	case <-c.outside:
	case err := <-c.wrote:
		t.Fatal(err)
	}
}

func (c *call) end() error {
	close(c.write)
	return <-c.wrote
}

func stayOutside(ctx context.Context) error {
	c := ctx.Value(callKey{}).(*call)
	close(c.outside)
	select {
	case <-c.write:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func buys(user, item string) action {
	return func(ctx context.Context, s *shop) error {
		return lockmw.Do(ctx, s.locks, lockmw.Key("user", user), func(ctx context.Context) error {
			_, err := s.order(ctx, order{User: user, Item: item})
			return err
		})
	}
}

func ships(id int64, item string) action {
	return func(ctx context.Context, s *shop) error {
		payload, err := json.Marshal(fulfilment{Order: id, Item: item})
		if err != nil {
			return err
		}
		return lockmw.Do(ctx, s.locks, lockmw.Key("item", item), func(ctx context.Context) error {
			return s.fulfil(ctx, asynq.NewTask(typeFulfil, payload))
		})
	}
}

// shopOver returns a shop whose calls wait in the bank or the carrier until they may write.
func shopOver(t *testing.T, b *books.Books, rdb redis.UniversalClient) *shop {
	t.Helper()
	locks, err := lockmw.New(rdb, lockmw.WithLease(10*time.Minute), lockmw.WithUnlockTimeout(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close() })
	c := usual(true)
	c.bank, c.carrier, c.deliveries = stayOutside, stayOutside, 0
	return newShop(b, locks, asynq.NewClientFromRedisClient(rdb), "orders", c)
}

func storeOrder(t *testing.T, b *books.Books, item string) (id int64) {
	t.Helper()
	err := b.Change(t.Context(), func(tx *sql.Tx) error {
		res, err := tx.ExecContext(t.Context(), `INSERT INTO orders (user, item) VALUES (?, ?)`, "user of "+item, item)
		if err == nil {
			id, err = res.LastInsertId()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}
