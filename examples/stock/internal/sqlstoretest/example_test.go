package sqlstoretest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/idempotency/sqlstore"
	"github.com/lockmw/go/lockmw"
)

// An order is placed in SQLite. Its first transaction fails, and a third call gets the answer of the second one.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:example?mode=memory&cache=shared")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, sqlstore.Schema(sqlstore.SQLite, "")+`CREATE TABLE orders (item TEXT)`); err != nil {
		panic(err)
	}

	store := sqlstore.New(db, sqlstore.SQLite)
	once := idempotency.New(exampleLocks(), idempotency.WithStore(store))
	key := idempotency.Key{Scope: "user-7", ID: "8e03978e"}

	for call := range 3 {
		receipt, err := idempotency.Do(ctx, once, key, "tea", idempotency.RunAgain, func(ctx context.Context, item string) (string, error) {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return "", err
			}
			defer tx.Rollback() // no effect after Commit
			if _, err := tx.ExecContext(ctx, `INSERT INTO orders (item) VALUES (?)`, item); err != nil {
				return "", err
			}
			if call == 0 {
				return "", errors.New("the warehouse does not answer")
			}
			return fmt.Sprintf("receipt of attempt %d", idempotency.Attempt(ctx)), sqlstore.Commit(ctx, tx)
		})
		fmt.Println(receipt, err)
	}

	var orders int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM orders`).Scan(&orders); err != nil {
		panic(err)
	}
	deleted, err := store.Cleanup(ctx, 1000) // now and then
	fmt.Println(orders, "order;", deleted, "expired records,", err)
	// Output:
	//  the warehouse does not answer
	// receipt of attempt 2 <nil>
	// receipt of attempt 2 <nil>
	// 1 order; 0 expired records, <nil>
}

// exampleLocks stands for lockmw.New(redis.NewClient(…)), without a Redis.
func exampleLocks() lockmw.Locker {
	return lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		held, hold := lockmw.NewHold(ctx, key, time.Now().UnixMicro(), func(context.Context) error { return nil })
		return held, hold, nil
	})
}
