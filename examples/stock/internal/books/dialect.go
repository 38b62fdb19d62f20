package books

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"
	sqlitecode "modernc.org/sqlite/lib"

	"github.com/lockmw/go/idempotency/sqlstore"
)

// A dialect has the differences between databases.
type dialect struct {
	name       string
	numbered   bool   // placeholders are $1, $2, …, not ?
	forUpdate  string // clause of a SELECT that locks its rows
	insertOnce string // start of an INSERT that does nothing on a conflict
	onConflict string // end of that INSERT
	records    sqlstore.Dialect
	open       func(url string) (read, write *sql.DB, err error)
	passing    func(error) bool // reports a temporary error, after which a retry may succeed
}

var dialects = map[string]*dialect{
	"sqlite": {
		name: "SQLite", insertOnce: "INSERT", onConflict: " ON CONFLICT DO NOTHING",
		records: sqlstore.SQLite, open: openSQLite,
		passing: func(err error) bool {
			e, ok := errors.AsType[*sqlite.Error](err)
			return ok && e.Code()&0xff == sqlitecode.SQLITE_BUSY // the other bits are the kind
		},
	},
	"postgres": {
		name: "PostgreSQL", numbered: true, forUpdate: " FOR UPDATE", insertOnce: "INSERT", onConflict: " ON CONFLICT DO NOTHING",
		records: sqlstore.Postgres, open: openPostgres,
		passing: func(err error) bool {
			e, ok := errors.AsType[*pgconn.PgError](err)
			return ok && strings.HasPrefix(e.Code, "40") // the class of transactions that were rolled back
		},
	},
	"mysql": {
		name: "MariaDB or MySQL", forUpdate: " FOR UPDATE", insertOnce: "INSERT IGNORE",
		records: sqlstore.MySQL, open: openMySQL,
		passing: func(err error) bool {
			const deadlock = 1213
			e, ok := errors.AsType[*mysql.MySQLError](err)
			return ok && e.Number == deadlock
		},
	},
}

// Check checks a URL without connecting.
func Check(url string) error {
	d, err := dialectOf(url)
	if err != nil {
		return err
	}
	switch d.name {
	case dialects["postgres"].name:
		_, err = pgx.ParseConfig(url)
	case dialects["mysql"].name:
		_, err = mysqlConfig(url)
	}
	return err
}

func dialectOf(url string) (*dialect, error) {
	scheme, _, _ := strings.Cut(url, ":")
	if scheme == "postgresql" {
		scheme = "postgres"
	}
	if d := dialects[scheme]; d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("unknown database %q; use sqlite, postgres://… or mysql://…", scheme)
}

// openSQLite opens SQLite, which allows one writer at a time among all processes. The writes of a process queue for a single
// connection; writes of two processes wait for each other in the driver.
func openSQLite(url string) (read, write *sql.DB, err error) {
	_, path, _ := strings.Cut(url, ":")
	dsn := "file:" + filepath.ToSlash(path) +
		"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_txlock=immediate"
	if write, err = sql.Open("sqlite", dsn); err != nil {
		return nil, nil, err
	}
	write.SetMaxOpenConns(1)
	if read, err = sql.Open("sqlite", dsn); err != nil {
		return nil, nil, errors.Join(err, write.Close())
	}
	limit(read)
	return read, write, nil
}

func openPostgres(url string) (read, write *sql.DB, err error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, nil, err
	}
	cfg.ConnectTimeout = dialTimeout
	db := stdlib.OpenDB(*cfg)
	limit(db)
	return db, db, nil
}

func openMySQL(url string) (read, write *sql.DB, err error) {
	cfg, err := mysqlConfig(url)
	if err != nil {
		return nil, nil, err
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, nil, err
	}
	db := sql.OpenDB(connector)
	limit(db)
	return db, db, nil
}

const dialTimeout = 3 * time.Second

func mysqlConfig(from string) (*mysql.Config, error) {
	u, err := url.Parse(from)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return nil, e.Err // without the password
	}
	cfg := mysql.NewConfig()
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.Net, cfg.Addr = "tcp", u.Host
	if u.Port() == "" {
		cfg.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	cfg.DBName = strings.TrimPrefix(u.Path, "/")
	if u.Hostname() == "" || cfg.DBName == "" {
		return nil, errors.New("the URL of MariaDB or MySQL is mysql://user:password@host:port/database")
	}
	for name, values := range u.Query() {
		if name != "tls" {
			return nil, fmt.Errorf("mysql://… may end in ?tls=…, not in %q", name)
		}
		cfg.TLSConfig = values[0]
	}
	cfg.Timeout = dialTimeout
	cfg.ClientFoundRows = true // count matched rows, like the other databases, not changed rows
	cfg.InterpolateParams = true
	cfg.Logger = &mysql.NopLogger{} // calls return the errors that matter
	return cfg, nil
}

// limit keeps two shops below the default connection limits of servers.
func limit(db *sql.DB) {
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
}
