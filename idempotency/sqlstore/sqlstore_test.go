package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/idempotency/sqlstore"
	"github.com/lockmw/go/lockmw"
)

var dialects = []sqlstore.Dialect{sqlstore.Postgres, sqlstore.MySQL, sqlstore.SQLite}

// refuse returns a pool in which every statement fails with the error that f returns for its arguments.
func refuse(t *testing.T, f func(args []driver.NamedValue) error) *sql.DB {
	t.Helper()
	db := sql.OpenDB(refusing{f})
	t.Cleanup(func() { _ = db.Close() })
	return db
}

type refusing struct {
	err func(args []driver.NamedValue) error
}

func (r refusing) Connect(context.Context) (driver.Conn, error) { return r, nil }
func (r refusing) Driver() driver.Driver                        { return nil }
func (r refusing) Prepare(string) (driver.Stmt, error)          { return nil, r.err(nil) }
func (r refusing) Close() error                                 { return nil }
func (r refusing) Begin() (driver.Tx, error)                    { return nil, r.err(nil) }

func (r refusing) ExecContext(_ context.Context, _ string, args []driver.NamedValue) (driver.Result, error) {
	return nil, r.err(args)
}

func (r refusing) QueryContext(_ context.Context, _ string, args []driver.NamedValue) (driver.Rows, error) {
	return nil, r.err(args)
}

func TestErrorsQuoteNoKey(t *testing.T) {
	errQuoting := errors.New("no disk")
	key := idempotency.Key{Scope: "user-7", ID: "click-1"}.LockKey()
	db := refuse(t, func(args []driver.NamedValue) error {
		return fmt.Errorf("%w, with %v, %q…", errQuoting, args, key[:40])
	})
	for _, d := range dialects {
		s := sqlstore.New(db, d)
		_, look := s.Look(t.Context(), key)
		_, begin := s.Begin(t.Context(), idempotency.Claim{Key: key, Run: "run", Token: 1, TTL: time.Hour})
		_, end := s.End(t.Context(), idempotency.End{Key: key, Run: "run"})
		for i, err := range []error{look, begin, end, s.Void(t.Context(), key, "run")} {
			if !errors.Is(err, errQuoting) || strings.Contains(err.Error(), key[5:20]) {
				t.Errorf("%v: error %d is %v", d, i, err)
			}
		}
	}
}

// Errors as the drivers make them.
type (
	stateError      string                                 // pgx, pq
	numberError     struct{ Number uint16 }                // go-sql-driver/mysql
	codeError       int                                    // modernc.org/sqlite
	codedFieldError struct{ Code, ExtendedCode codedKind } // mattn/go-sqlite3
	codedKind       int
)

func (s stateError) Error() string      { return "lock" }
func (s stateError) SQLState() string   { return string(s) }
func (n *numberError) Error() string    { return "lock" }
func (c codeError) Error() string       { return "lock" }
func (c codeError) Code() int           { return int(c) }
func (c codedFieldError) Error() string { return "lock" }

func TestALockedRowIsInFlight(t *testing.T) {
	for _, c := range []struct {
		d      sqlstore.Dialect
		err    error
		locked bool
	}{
		{sqlstore.Postgres, stateError("55P03"), true},
		{sqlstore.Postgres, stateError("42P01"), false},
		{sqlstore.MySQL, &numberError{1205}, true},
		{sqlstore.MySQL, &numberError{3572}, true},
		{sqlstore.MySQL, &numberError{1146}, false},
		{sqlstore.SQLite, codeError(5), true},
		{sqlstore.SQLite, codeError(517), true},
		{sqlstore.SQLite, codeError(6), true},
		{sqlstore.SQLite, codeError(11), false},
		{sqlstore.SQLite, codedFieldError{5, 517}, true},
		{sqlstore.SQLite, codedFieldError{1, 1}, false},
		{sqlstore.SQLite, errors.New("database is locked"), false},
	} {
		db := refuse(t, func([]driver.NamedValue) error { return fmt.Errorf("wrapped: %w", c.err) })
		_, err := sqlstore.New(db, c.d).Begin(t.Context(), idempotency.Claim{Key: "idem:0", Run: "run", Token: 1, TTL: time.Hour})
		if errors.Is(err, idempotency.ErrInFlight) != c.locked || errors.Is(err, lockmw.ErrBusy) != c.locked || !errors.Is(err, c.err) {
			t.Errorf("%v: %#v: the error is %v", c.d, c.err, err)
		}
	}
}

func TestNewRefusesWhatIsInvalid(t *testing.T) {
	db := refuse(t, func([]driver.NamedValue) error { return nil })
	for name, f := range map[string]func(){
		"no database":         func() { sqlstore.New(nil, sqlstore.SQLite) },
		"no dialect":          func() { sqlstore.New(db, 0) },
		"an unknown dialect":  func() { sqlstore.New(db, 4) },
		"Schema of a dialect": func() { sqlstore.Schema(0, "") },
	} {
		isInvalid(t, name, f)
	}
}

func TestTableNamesAreChecked(t *testing.T) {
	db := refuse(t, func([]driver.NamedValue) error { return nil })
	for _, name := range []string{
		"records; DROP TABLE orders", "records--", `"records"`, "`records`", "a.b.c", ".records", "app.", "1records", "réc", "records\n", "?",
		strings.Repeat("x", 49),
	} {
		isInvalid(t, name, func() { sqlstore.New(db, sqlstore.Postgres, sqlstore.WithTable(name)) })
		isInvalid(t, name, func() { sqlstore.Schema(sqlstore.Postgres, name) })
	}
	isInvalid(t, "empty", func() { sqlstore.New(db, sqlstore.Postgres, sqlstore.WithTable("")) })
	for _, name := range []string{"records", "_Records2", "app.records", strings.Repeat("x", 48)} {
		for _, d := range dialects {
			sqlstore.New(db, d, sqlstore.WithTable(name))
			if !strings.Contains(sqlstore.Schema(d, name), "CREATE TABLE IF NOT EXISTS "+name+" (") {
				t.Errorf("the schema is %s", sqlstore.Schema(d, name))
			}
		}
	}
}

func TestIndexesAreInTheSchemaOfTheirTable(t *testing.T) {
	for d, want := range map[sqlstore.Dialect]string{
		sqlstore.Postgres: "CREATE INDEX IF NOT EXISTS records_expires ON app.records (expires)",
		sqlstore.MySQL:    "INDEX records_expires (expires)",
		sqlstore.SQLite:   "CREATE INDEX IF NOT EXISTS app.records_expires ON records (expires)",
	} {
		if schema := sqlstore.Schema(d, "app.records"); !strings.Contains(schema, want) {
			t.Errorf("%v: %q is not in %s", d, want, schema)
		}
	}
}

func TestDialectsHaveNames(t *testing.T) {
	if got := fmt.Sprint(dialects, sqlstore.Dialect(9)); got != "[PostgreSQL MySQL SQLite] Dialect(9)" {
		t.Error(got)
	}
}

func isInvalid(t *testing.T, name string, f func()) {
	t.Helper()
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, lockmw.ErrInvalidOption) {
			t.Errorf("%q: it panicked with %v", name, err)
		}
	}()
	f()
}
