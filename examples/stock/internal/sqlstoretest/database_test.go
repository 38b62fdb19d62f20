package sqlstoretest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/lockmw/go/examples/stock/internal/dbtest"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/idempotency/sqlstore"
)

// A database is where a test runs. Each test has tables of its own.
type database struct {
	dialect sqlstore.Dialect
	driver  string
	dsn     string
	variant string // what is appended to dsn
}

// busyTimeout is how long a connection waits until SQLite is free.
const busyTimeout = "busy_timeout(10000)"

var tables atomic.Int64

// testbed is a table of records, and one of orders, which are the effects of runs.
type testbed struct {
	*testing.T
	database
	db      *sql.DB
	store   *sqlstore.Store
	records string
	orders  string
}

func newTestbed(t *testing.T, d database) *testbed {
	t.Helper()
	n := strconv.FormatInt(tables.Add(1), 10)
	b := &testbed{T: t, database: d, records: "records_" + n, orders: "orders_" + n}
	b.db = b.open(d.dsn)
	for statement := range strings.SplitSeq(sqlstore.Schema(d.dialect, b.records), ";\n") {
		if statement != "" {
			b.exec(statement)
		}
	}
	b.exec(`CREATE TABLE ` + b.orders + ` (item VARCHAR(64) PRIMARY KEY)`)
	b.store = sqlstore.New(b.db, d.dialect, sqlstore.WithTable(b.records))
	return b
}

// open opens another pool of connections.
func (b *testbed) open(dsn string) *sql.DB {
	b.Helper()
	db, err := sql.Open(b.driver, dsn+b.variant)
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(12)
	db.SetMaxIdleConns(12)
	b.Cleanup(func() { _ = db.Close() })
	return db
}

// impatient returns a Store that does not wait for long until SQLite is free.
func (b *testbed) impatient() *sqlstore.Store {
	b.Helper()
	return sqlstore.New(b.open(impatiently(b.dsn)), b.dialect, sqlstore.WithTable(b.records))
}

// impatiently returns a DSN with which a connection does not wait for long until SQLite is free.
func impatiently(dsn string) string { return strings.Replace(dsn, busyTimeout, "busy_timeout(50)", 1) }

func isSQLite(d database) bool { return d.dialect == sqlstore.SQLite }

// fill inserts n records, old-0000 and so on, that have expired, and one that has not.
func (b *testbed) fill(n int) {
	b.Helper()
	if _, err := b.store.Begin(b.Context(), idempotency.Claim{Key: "old-0000", Run: "r", Token: 1, TTL: time.Hour}); err != nil {
		b.Fatal(err)
	}
	const rest = `state, fingerprint, run, token, earlier, silent, returned, began, expires, status, void_runs`
	tx, err := b.db.BeginTx(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := 1; i < n && err == nil; i++ {
		_, err = tx.ExecContext(b.Context(), b.sql(`INSERT INTO `+b.records+` (idem_key, `+rest+`) SELECT ?, `+rest+` FROM `+b.records+` WHERE idem_key = ?`),
			fmt.Sprintf("old-%04d", i), "old-0000")
	}
	if err := errors.Join(err, tx.Commit()); err != nil {
		b.Fatal(err)
	}
	b.expire("old-%")
	if _, err := b.store.Begin(b.Context(), claim("live", 1)); err != nil {
		b.Fatal(err)
	}
}

// openLossy opens a pool whose COMMITs answer with errLost, either after the database has executed them or instead.
func (b *testbed) openLossy(executed bool) *sql.DB {
	b.Helper()
	commit := func(tx driver.Tx) error {
		end := tx.Rollback
		if executed {
			end = tx.Commit
		}
		if err := end(); err != nil {
			return err
		}
		return errLost
	}
	db := sql.OpenDB(&tapped{driver: b.db.Driver(), dsn: b.dsn + b.variant, commit: commit})
	b.Cleanup(func() { _ = db.Close() })
	return db
}

var errLost = fmt.Errorf("the connection broke: %w", driver.ErrBadConn)

// exec executes a statement, in which ? are placeholders, and returns how many rows it has changed.
func (b *testbed) exec(statement string, args ...any) int64 {
	b.Helper()
	res, err := b.db.ExecContext(context.Background(), b.sql(statement), args...)
	if err != nil {
		b.Fatalf("%s: %v", statement, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func (b *testbed) sql(statement string) string { return numbered(b.dialect, statement) }

// numbered numbers placeholders if the dialect needs that.
func numbered(d sqlstore.Dialect, statement string) string {
	if d != sqlstore.Postgres {
		return statement
	}
	for n := 1; strings.Contains(statement, "?"); n++ {
		statement = strings.Replace(statement, "?", fmt.Sprintf("$%d", n), 1)
	}
	return statement
}

// count counts the rows of a table.
func (b *testbed) count(table string) (n int) {
	b.Helper()
	if err := b.db.QueryRowContext(context.Background(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

// now returns the time as a column has it.
func (b *testbed) now() string {
	switch b.dialect {
	case sqlstore.Postgres:
		return `now()`
	case sqlstore.MySQL:
		return `UTC_TIMESTAMP(6)`
	default:
		return `strftime('%s', 'now') * 1000000`
	}
}

// expire lets the records of keys like this expire.
func (b *testbed) expire(keys string) {
	b.Helper()
	past := b.now() + ` - INTERVAL '1' SECOND`
	if isSQLite(b.database) {
		past = b.now() + ` - 1000000`
	}
	b.exec(`UPDATE `+b.records+` SET expires = `+past+` WHERE idem_key LIKE ?`, keys)
}

// lockRow changes the row of a key in a transaction that it leaves open, until unlock is called.
func (b *testbed) lockRow(key string) (unlock func()) {
	b.Helper()
	tx, err := b.db.BeginTx(context.Background(), nil)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := tx.ExecContext(context.Background(), b.sql(`UPDATE `+b.records+` SET status = 7 WHERE idem_key = ?`), key); err != nil {
		b.Fatal(err)
	}
	return func() { _ = tx.Rollback() }
}

// sqliteFile returns the DSN of a new file.
func sqliteFile(t *testing.T) string {
	return "file:" + filepath.ToSlash(filepath.Join(t.TempDir(), "shop.db")) + "?_pragma=" + busyTimeout
}

// variant runs f next to the other variants of a database.
func variant(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		f(t)
	})
}

// eachDatabase runs f with each database, in each of its variants.
func eachDatabase(t *testing.T, f func(t *testing.T, d database)) {
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		// Each variant has a file of its own.
		for name, options := range map[string]string{"write-ahead log": "&_pragma=journal_mode(WAL)", "rollback journal": ""} {
			variant(t, name, func(t *testing.T) { f(t, database{sqlstore.SQLite, "sqlite", sqliteFile(t), options}) })
		}
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		dsn := dbtest.Postgres(t).URL("shop") + "?"
		for name, options := range map[string]string{
			"defaults": "",
			"far east": "default_query_exec_mode=simple_protocol&timezone=Asia%2FTokyo&default_transaction_isolation=repeatable%20read",
		} {
			variant(t, name, func(t *testing.T) { f(t, database{sqlstore.Postgres, "pgx", dsn, options}) })
		}
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		u, err := url.Parse(dbtest.MariaDB(t).URL("shop"))
		if err != nil {
			t.Fatal(err)
		}
		dsn := u.User.String() + "@tcp(" + u.Host + ")" + u.Path + "?"
		for name, options := range map[string]string{
			"defaults": "",
			"far east": "clientFoundRows=true&parseTime=true&loc=Asia%2FTokyo&interpolateParams=true&time_zone=%27%2B09%3A00%27",
		} {
			variant(t, name, func(t *testing.T) { f(t, database{sqlstore.MySQL, "mysql", dsn, options}) })
		}
	})
}
