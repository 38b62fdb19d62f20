package sqlstoretest

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/idempotency/sqlstore"
	"github.com/lockmw/go/lockmw"
)

func testLostCommit(t *testing.T, d database) {
	for name, executed := range map[string]bool{"executed": true, "not executed": false} {
		for how, ignored := range map[string]bool{"returned": false, "ignored": true} {
			t.Run(name+", "+how, func(t *testing.T) {
				b := newTestbed(t, d)
				once, broken := b.runner(client(t)), b.openLossy(executed)
				work := func(db *sql.DB) (string, error) {
					return do(t, once, idempotency.RunAgain, func(ctx context.Context) (string, error) {
						err := b.place(ctx, db, "tea")
						if db == broken && (err == nil || errors.Is(err, sqlstore.ErrSuperseded)) {
							t.Errorf("Commit returned %v", err)
						}
						if ignored {
							err = nil
						}
						return "receipt", err
					})
				}
				_, err := work(broken)
				switch {
				case ignored && executed:
					isError(t, err, nil)
				case ignored:
					isError(t, err, idempotency.ErrNotRecorded)
				case err == nil:
					t.Error("the error of Commit was lost")
				}
				got, err := work(b.db)
				if executed && !ignored {
					isError(t, err, idempotency.ErrDone)
				} else if got != "receipt" || err != nil {
					t.Errorf("a repetition got %q, %v", got, err)
				}
				b.hasOrders("tea")
			})
		}
	}
}

// testDuplicate continues after an error of a statement. PostgreSQL then commits nothing; the other databases do.
func testDuplicate(t *testing.T, d database) {
	for name, replaced := range map[string]bool{"replaced": true, "not replaced": false} {
		t.Run(name, func(t *testing.T) {
			b := newTestbed(t, d)
			b.exec(`INSERT INTO ` + b.orders + ` (item) VALUES ('old')`)
			once := b.runner(loose())
			var committed error
			_, _ = do(t, once, idempotency.RunAgain, func(ctx context.Context) (string, error) {
				if replaced {
					_, err := do(t, once, idempotency.RunAgain, func(context.Context) (string, error) { return "second", nil })
					isError(t, err, nil)
				}
				tx := b.begin(ctx, b.db)
				isError(t, b.order(ctx, tx, "tea"), nil)
				if b.order(ctx, tx, "old") == nil {
					t.Error("an item was ordered twice")
				}
				committed = sqlstore.Commit(ctx, tx)
				_ = tx.Commit()
				return "receipt", nil
			})
			aborted := d.dialect == sqlstore.Postgres
			switch {
			case aborted && (committed == nil || errors.Is(committed, sqlstore.ErrSuperseded)):
				t.Errorf("Commit returned %v", committed)
			case replaced && !aborted:
				isError(t, committed, sqlstore.ErrSuperseded)
			case !aborted:
				isError(t, committed, nil)
			}
			if aborted || replaced {
				b.hasOrders("old")
			} else {
				b.hasOrders("old", "tea")
			}
		})
	}
}

func testNoRun(t *testing.T, d database) {
	b := newTestbed(t, d)
	err := b.place(t.Context(), b.db, "tea")
	isError(t, err, lockmw.ErrInvalidOption)
	if err == nil || !strings.Contains(err.Error(), "does not belong to a run") {
		t.Errorf("the error is %v", err)
	}
	_, err = do(t, idempotency.New(lockmw.NewLocal()), idempotency.RunAgain, func(ctx context.Context) (string, error) {
		return "", b.place(ctx, b.db, "tea")
	})
	isError(t, err, lockmw.ErrInvalidOption)
	b.hasOrders()
}

func testErrors(t *testing.T, d database) {
	b := newTestbed(t, d)
	once, key := b.runner(client(t)), someKey.LockKey()
	check := func(err error) {
		t.Helper()
		if err == nil {
			t.Error("no error, though the table is gone")
			return
		}
		for _, secret := range []string{key, key[5:20], someKey.Scope, someKey.ID} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error contains %q: %v", secret, err)
			}
		}
	}
	_, err := do(t, once, idempotency.RunAgain, func(ctx context.Context) (string, error) {
		b.exec(`DROP TABLE ` + b.records)
		err := b.place(ctx, b.db, "tea")
		check(err)
		return "receipt", nil
	})
	check(err)
	isError(t, err, idempotency.ErrNotRecorded)
	b.hasOrders()
	_, err = do(t, once, idempotency.RunAgain, notCalled(t))
	check(err)
	isError(t, err, lockmw.ErrUnavailable)
	_, err = b.store.Begin(t.Context(), claim("second", 2))
	check(err)
	check(b.store.Void(t.Context(), key, "second"))
}
