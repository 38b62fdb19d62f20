package docs

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/idempotency/sqlstore"
	"github.com/lockmw/go/lockmw"
)

// The blocks of docs/idempotency.md.
var _ = []any{onceAndAnswered, resolved, onceATask, paid, inADatabase}

type (
	order   struct{ Item string }
	receipt struct{ Number int }
	Event   struct{ Account, ID string }
)

func onceAndAnswered(ctx context.Context, locks *lockmw.Client, userID, clientKey string, placeOrder func(context.Context, order) (receipt, error)) error {
	once := idempotency.New(locks) // records are in the same Redis as the locks
	key := idempotency.Key{Scope: userID, ID: clientKey}
	got, err := idempotency.Do(ctx, once, key, order{"tea"}, idempotency.Refuse,
		func(ctx context.Context, o order) (receipt, error) {
			return placeOrder(ctx, o) // order and receipt are types of yours, which are kept as JSON
		})
	_ = got
	return err
}

func resolved(ctx context.Context, once *idempotency.Runner, key idempotency.Key, err error, run string) error {
	if e, ok := errors.AsType[*idempotency.Error](err); ok && e.Unfinished != nil {
		log.Printf("run %s, attempt %d, began %v", e.Unfinished.Run, e.Unfinished.Attempts, e.Unfinished.Began)
	}
	{
		result, _ := idempotency.Result(receipt{7}) // what the run should have answered
		err := once.Resolve(ctx, key, run, &result) // it was done; nil instead of &result: it was not
		return err
	}
}

func onceATask(locks *lockmw.Client, mux *asynq.ServeMux) {
	byEventID := asynqmw.PayloadKey(func(e Event) idempotency.Key {
		return idempotency.Key{Scope: e.Account, ID: e.ID}
	})
	once := idempotency.New(locks, idempotency.WithMaxHold(40*time.Minute)) // longer than a task's timeout
	mux.Handle("order:fulfil", asynqmw.Deduplicate(once, byEventID)(asynq.HandlerFunc(fulfil)))
}

type payments interface {
	Pay(ctx context.Context, id string, o order) (number int, err error)
	Find(ctx context.Context, id string) (number int, err error)
}

func paid(ctx context.Context, once *idempotency.Runner, key idempotency.Key, provider payments, errNoPayment error) error {
	policy := idempotency.Recover(func(ctx context.Context, u idempotency.Unfinished) (idempotency.Answer, error) {
		number, err := provider.Find(ctx, u.Key.ID)
		switch {
		case errors.Is(err, errNoPayment):
			return idempotency.Answer{}, idempotency.ErrNotDone
		case err != nil:
			return idempotency.Answer{}, err // still unknown
		}
		return idempotency.Result(receipt{number})
	})
	got, err := idempotency.Do(ctx, once, key, order{"tea"}, policy, func(ctx context.Context, o order) (receipt, error) {
		number, err := provider.Pay(ctx, key.ID, o) // the ID makes a second payment impossible
		return receipt{number}, err
	})
	_ = got
	return err
}

func inADatabase(ctx context.Context, locks *lockmw.Client, db *sql.DB, key idempotency.Key, insertOrder func(context.Context, *sql.Tx, order) (receipt, error)) error {
	once := idempotency.New(locks, idempotency.WithStore(sqlstore.New(db, sqlstore.Postgres)))
	got, err := idempotency.Do(ctx, once, key, order{"tea"}, idempotency.RunAgain,
		func(ctx context.Context, o order) (receipt, error) {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return receipt{}, err
			}
			defer tx.Rollback() // no effect after Commit
			r, err := insertOrder(ctx, tx, o)
			if err != nil {
				return receipt{}, err
			}
			return r, sqlstore.Commit(ctx, tx) // instead of tx.Commit
		})
	_ = got
	return err
}
