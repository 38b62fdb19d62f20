package sqlstoretest

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/idempotency/sqlstore"
)

func testOnce(t *testing.T, d database) {
	b := newTestbed(t, d)
	once, seen := b.runner(client(t)), &attempts{}
	noStock := errors.New("no stock")
	_, err := do(t, once, idempotency.RunAgain, func(ctx context.Context) (string, error) {
		seen.note(ctx)
		tx := b.begin(ctx, b.db)
		defer tx.Rollback()
		return "", errors.Join(b.order(ctx, tx, "rolled back"), noStock)
	})
	isError(t, err, noStock)
	for range 3 {
		got, err := do(t, once, idempotency.RunAgain, func(ctx context.Context) (string, error) {
			seen.note(ctx)
			return "receipt", b.place(ctx, b.db, "tea")
		})
		if got != "receipt" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
	seen.are(t, 1, 2)
	b.hasOrders("tea")
}

func testCommitWins(t *testing.T, d database) {
	unlucky := errors.New("the mail server is down")
	for name, after := range map[string]func(ctx context.Context) (string, error){
		"an error": func(context.Context) (string, error) { return "", unlucky },
		"a panic":  func(context.Context) (string, error) { panic(unlucky) },
		"NotDone, and an error": func(ctx context.Context) (string, error) {
			idempotency.NotDone(ctx)
			return "", unlucky
		},
		"NotDone, and an answer": func(ctx context.Context) (string, error) {
			idempotency.NotDone(ctx)
			return "receipt", nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestbed(t, d)
			once := b.runner(client(t))
			func() {
				defer func() { _ = recover() }()
				_, _ = do(t, once, idempotency.RunAgain, func(ctx context.Context) (string, error) {
					isError(t, b.place(ctx, b.db, "tea"), nil)
					return after(ctx)
				})
			}()
			for _, p := range []idempotency.Policy{idempotency.RunAgain, idempotency.Refuse} {
				_, err := do(t, once, p, notCalled(t))
				isError(t, err, idempotency.ErrDone)
				if e, ok := errors.AsType[*idempotency.Error](err); !ok || e.Unfinished == nil || !e.Unfinished.Committed {
					t.Errorf("the details of %v do not say that the run has committed", err)
				}
			}
			b.hasOrders("tea")
		})
	}
}

func testCommitInFlight(t *testing.T, d database) {
	for name, policy := range map[string]idempotency.Policy{"RunAgain": idempotency.RunAgain, "Refuse": idempotency.Refuse} {
		t.Run(name, func(t *testing.T) {
			b := newTestbed(t, d)
			once := b.runner(client(t))
			for range 2 {
				got, err := do(t, once, policy, func(ctx context.Context) (string, error) {
					isError(t, b.place(ctx, b.db, "tea"), nil)
					_, err := do(t, once, policy, notCalled(t)) // by another caller
					isError(t, err, idempotency.ErrInFlight)
					return "receipt", nil
				})
				if got != "receipt" || err != nil {
					t.Errorf("got %q, %v", got, err)
				}
			}
			b.hasOrders("tea")
		})
	}
}

func testRecover(t *testing.T, d database) {
	b := newTestbed(t, d)
	once := b.runner(client(t))
	_, _ = do(t, once, idempotency.RunAgain, func(ctx context.Context) (string, error) {
		return "", errors.Join(b.place(ctx, b.db, "tea"), errors.New("too late"))
	})
	policy := idempotency.Recover(func(_ context.Context, u idempotency.Unfinished) (idempotency.Answer, error) {
		if !u.Committed {
			t.Errorf("the details are %+v", u)
		}
		return idempotency.Result("found")
	})
	for _, p := range []idempotency.Policy{policy, idempotency.Refuse} {
		got, err := do(t, once, p, notCalled(t))
		if got != "found" || err != nil {
			t.Errorf("a repetition got %q, %v", got, err)
		}
	}
}

func testFoundOut(t *testing.T, d database) {
	b := newTestbed(t, d)
	once := b.runner(loose())
	found := idempotency.Recover(func(context.Context, idempotency.Unfinished) (idempotency.Answer, error) {
		return idempotency.Result("found")
	})
	_, err := do(t, once, idempotency.RunAgain, func(context.Context) (string, error) {
		got, err := do(t, once, found, notCalled(t))
		if got != "found" || err != nil {
			t.Errorf("the call that finds the answer out got %q, %v", got, err)
		}
		return "receipt", nil
	})
	isError(t, err, idempotency.ErrNotRecorded)
	if got, err := do(t, once, idempotency.Refuse, notCalled(t)); got != "found" || err != nil {
		t.Errorf("a repetition got %q, %v", got, err)
	}
}

// testReplaced pauses a run until another one has begun, or has ended.
func testReplaced(t *testing.T, d database) {
	for name, ended := range map[string]bool{"the other still works": false, "the other has committed": true} {
		t.Run(name, func(t *testing.T) {
			b := newTestbed(t, d)
			once := b.runner(loose())
			begin := func() *idempotency.Run {
				t.Helper()
				run, err := once.Begin(t.Context(), someKey, idempotency.Fingerprint{1}, idempotency.RunAgain)
				if err != nil {
					t.Fatal(err)
				}
				return run
			}
			first := begin()
			tx := b.begin(first.Context(), b.db)
			if !isSQLite(d) { // there the other one could not begin
				isError(t, b.order(first.Context(), tx, "first"), nil)
			}
			second := begin()
			if ended {
				isError(t, b.place(second.Context(), b.db, "second"), nil)
			}
			if isSQLite(d) {
				isError(t, b.order(first.Context(), tx, "first"), nil)
			}
			err := sqlstore.Commit(first.Context(), tx)
			if d.dialect == sqlstore.Postgres && strings.Contains(d.variant, "repeatable") {
				if err == nil || !strings.Contains(err.Error(), "could not serialize access") {
					t.Errorf("the error is %v", err)
				}
			} else {
				isError(t, err, sqlstore.ErrSuperseded)
				isError(t, err, idempotency.ErrSuperseded)
			}
			isError(t, tx.Commit(), sql.ErrTxDone)
			isError(t, first.Keep(idempotency.Answer{Status: 201}), idempotency.ErrNotRecorded)
			if !ended {
				isError(t, b.place(second.Context(), b.db, "second"), nil)
			}
			isError(t, second.Keep(idempotency.Answer{Status: 200}), nil)
			b.hasOrders("second")
		})
	}
}

func testIgnored(t *testing.T, d database) {
	b := newTestbed(t, d)
	once := b.runner(loose())
	_, err := do(t, once, idempotency.RunAgain, func(ctx context.Context) (string, error) {
		got, err := do(t, once, idempotency.RunAgain, func(ctx context.Context) (string, error) {
			return "second", b.place(ctx, b.db, "second")
		})
		if got != "second" || err != nil {
			t.Errorf("the second run returned %q, %v", got, err)
		}
		tx := b.begin(ctx, b.db)
		isError(t, b.order(ctx, tx, "first"), nil)
		_ = sqlstore.Commit(ctx, tx)
		_ = b.order(ctx, tx, "late")
		_ = tx.Commit()
		return "first", nil
	})
	isError(t, err, idempotency.ErrNotRecorded)
	got, err := do(t, once, idempotency.Refuse, notCalled(t))
	if got != "second" || err != nil {
		t.Errorf("a repetition got %q, %v", got, err)
	}
	b.hasOrders("second")
}

func testExpiredCommit(t *testing.T, d database) {
	b := newTestbed(t, d)
	_, err := do(t, b.runner(client(t)), idempotency.RunAgain, func(ctx context.Context) (string, error) {
		b.expire(someKey.LockKey())
		err := b.place(ctx, b.db, "tea")
		isError(t, err, sqlstore.ErrSuperseded)
		return "", err
	})
	isError(t, err, sqlstore.ErrSuperseded)
	b.hasOrders()
}

// testOldSnapshot begins the transaction before the run, and ignores the error of Commit.
func testOldSnapshot(t *testing.T, d database) {
	b := newTestbed(t, d)
	b.exec(`INSERT INTO ` + b.orders + ` (item) VALUES ('old')`)
	level := sql.LevelRepeatableRead
	if isSQLite(d) {
		level = sql.LevelDefault
	}
	tx, err := b.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRowContext(t.Context(), `SELECT count(*) FROM `+b.orders).Scan(&n); err != nil {
		t.Fatal(err)
	}
	once := idempotency.New(client(t), idempotency.WithStore(b.impatient()), idempotency.WithWait(0))
	ran := false
	_, err = do(t, once, idempotency.RunAgain, func(ctx context.Context) (string, error) {
		ran = true
		_ = b.order(ctx, tx, "tea") // SQLite refuses it
		err := sqlstore.Commit(ctx, tx)
		if isSQLite(d) {
			if err == nil {
				t.Error("the transaction was committed")
			}
		} else {
			isError(t, err, sqlstore.ErrSuperseded)
		}
		return "receipt", nil
	})
	if !ran {
		isError(t, err, idempotency.ErrInFlight) // without a write-ahead log, a reader stops writers
		_ = tx.Rollback()
	} else {
		isError(t, err, idempotency.ErrNotRecorded)
	}
	b.hasOrders("old")
	_, err = do(t, b.runner(client(t)), idempotency.RunAgain, func(ctx context.Context) (string, error) {
		return "receipt", b.place(ctx, b.db, "tea")
	})
	isError(t, err, nil)
	b.hasOrders("old", "tea")
}
