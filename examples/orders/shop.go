package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/examples/orders/internal/books"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// This file has everything that a shop needs from lockmw: a route, a task, a function, and the SQL that
// checks the fencing token. A sale without locks runs the same code, with a Locker that does nothing and without repeat.

// routes answers all clicks of one intent alike, and locks the user: of two intents, the second is refused while the first is
// running.
func (s *shop) routes(r chi.Router) {
	byUser := httpmw.By("user", userID)
	r.With(s.repeat(), httpmw.WithLock(s.locks, byUser)).Post("/users/{userID}/orders", s.create)
	r.Get("/items", s.list)
}

// userID is the user in the form of the lock's key: /users/%34%32 is user 42 in both places. A real shop takes the user whom it
// has authenticated: httpmw.Claim.
var userID = httpmw.URLParam("userID")

// repeat gives all clicks with the same Idempotency-Key the same order. A run that left no outcome may run again: order looks
// for the user's order first, and place stores everything or nothing. With a real bank, take Refuse or ask the bank in Recover.
func (s *shop) repeat() func(http.Handler) http.Handler {
	if !s.locked {
		return func(next http.Handler) http.Handler { return next }
	}
	wait := idempotency.WithWait(2 * s.turn) // longer than the first click waits for its item
	return httpmw.Idempotent(idempotency.New(s.locks, wait), userID, idempotency.RunAgain)
}

// tasks locks the item, with the same key as requests.
func (s *shop) tasks(mux *asynq.ServeMux) {
	byItem := asynqmw.By("item", asynqmw.Payload(func(f fulfilment) string { return f.Item }))
	locked := asynqmw.WithLock(s.locks, byItem,
		lockmw.WithWait(s.patience), // in the worker; after that the task returns to the queue
		lockmw.WithObserver(s.counts.Requeues()),
		asynqmw.WithRequeueDelay(time.Second, 2*time.Second))
	mux.Handle(typeFulfil, named(locked(asynq.HandlerFunc(s.fulfil))))
}

// buyer locks the item while an order is placed. A call waits for earlier orders, because they may leave some stock.
func (s *shop) buyer() func(context.Context, order) (int64, error) {
	byItem := lockmw.By("item", func(o order) string { return o.Item })
	return lockmw.WithLockValue(s.locks, byItem, s.place,
		lockmw.WithWait(s.turn), lockmw.WithObserver(s.counts.Waits()))
}

// place runs under the item's lock, inside the user's lock. A transaction cannot replace them: it would stay open during
// the call of the bank.
func (s *shop) place(ctx context.Context, o order) (id int64, err error) {
	user, userErr := lockmw.Held(ctx, lockmw.Key("user", o.User))
	item, itemErr := lockmw.Held(ctx, lockmw.Key("item", o.Item))
	if err := errors.Join(userErr, itemErr); err != nil {
		return 0, err
	}
	left, seen, err := s.books.Stock(ctx, o.Item)
	if err != nil {
		return 0, err
	}
	if left <= 0 {
		return 0, errSoldOut
	}
	if err := s.outside(ctx, "pay", s.bank); err != nil {
		return 0, err
	}
	err = s.books.Change(ctx, func(tx *sql.Tx) error {
		if err := books.Fenced(tx.ExecContext(ctx, noteOrder, o.User, user.Token(), o.seen)); err != nil {
			return err
		}
		if err := books.Fenced(tx.ExecContext(ctx, takeOne, o.Item, item.Token(), seen)); err != nil {
			return err
		}
		const insert = `INSERT INTO orders (user, item, fence) VALUES (?, ?, ?)`
		res, err := tx.ExecContext(ctx, insert, o.User, o.Item, item.Token())
		if err != nil {
			return err
		}
		id, err = res.LastInsertId()
		return err
	})
	return id, err
}

// fulfil runs under the item's lock. It ships an order once, however often it is called.
func (s *shop) fulfil(ctx context.Context, t *asynq.Task) (err error) {
	defer func() {
		if err == nil {
			s.counts.Delivered.Add(1)
		}
	}()
	var f fulfilment
	if err := json.Unmarshal(t.Payload(), &f); err != nil {
		return fmt.Errorf("%w: %w", asynq.SkipRetry, err)
	}
	item, err := lockmw.Held(ctx, lockmw.Key("item", f.Item))
	if err != nil {
		return err
	}
	done, seen, err := s.books.Shipped(ctx, f.Order)
	if err != nil || done {
		return err
	}
	if err := s.outside(ctx, "ship", s.carrier); err != nil {
		return err
	}
	return s.books.Change(ctx, func(tx *sql.Tx) error {
		if err := books.Fenced(tx.ExecContext(ctx, markShipped, f.Order, item.Token(), seen)); err != nil {
			return err
		}
		return books.Collect(ctx, tx, f.Order)
	})
}

// The arguments of each statement are the row, the token of the hold, and the fence that was read with the data. A row
// does not change if a later holder has written, or if an earlier holder has written since the read: Redis may have lost
// that earlier hold without a notification. The same hold may write again. A call that failed open has token 0 and is
// refused if there was any other write since the read.
const (
	mayWrite = `(fence = ?3 AND (fence <= ?2 OR ?2 = 0) OR fence = ?2)`
	raised   = `CASE WHEN ?2 > 0 THEN ?2 ELSE fence + 1 END`

	noteOrder = `INSERT INTO users (id, fence) VALUES (?1, max(?2, 1))
		ON CONFLICT DO UPDATE SET fence = ` + raised + ` WHERE ` + mayWrite
	takeOne     = `UPDATE items SET stock = stock - 1, fence = ` + raised + ` WHERE id = ?1 AND ` + mayWrite
	markShipped = `UPDATE orders SET shipped = 1, fence = ` + raised + ` WHERE id = ?1 AND ` + mayWrite
)

type order struct {
	User, Item string
	seen       int64 // the user's fence, read with the check for an order
}

// A fulfilment is the payload of a task.
type fulfilment struct {
	Order int64  `json:"order"`
	Item  string `json:"item"`
}

const typeFulfil = "order:fulfil"

var errSoldOut = errors.New("sold out")
