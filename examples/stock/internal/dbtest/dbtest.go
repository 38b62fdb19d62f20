// Package dbtest runs databases for tests: PostgreSQL and MariaDB.
package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	_ "github.com/go-sql-driver/mysql" // the drivers
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/lockmw/go/internal/test/dbserver"
)

// A Server is a database server. Its user "shop", with password "shop", may do everything in the database "shop". Its user
// "guest", with password "guest", may only read.
type Server struct {
	scheme, addr string
	admin        *sql.DB
}

// URL returns the URL with which a program connects as a user.
func (s *Server) URL(user string) string {
	return fmt.Sprintf("%s://%s:%s@%s/shop", s.scheme, user, user, s.addr)
}

// Tables counts the tables in the database "shop".
func (s *Server) Tables(t testing.TB) (n int) {
	t.Helper()
	query := `SELECT count(*) FROM information_schema.tables WHERE table_schema IN ('shop', 'public')`
	if err := s.admin.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// start runs a server until the test ends, and connects to it as the administrator.
func start(t testing.TB, driver string, run func(answers func(ctx context.Context, addr string) error) *dbserver.Server, dsn func(addr string) string) (*sql.DB, string) {
	t.Helper()
	s := run(func(ctx context.Context, addr string) error {
		db, err := sql.Open(driver, dsn(addr))
		if err != nil {
			return err
		}
		defer db.Close()
		return db.PingContext(ctx)
	})
	db, err := sql.Open(driver, dsn(s.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db, s.Addr()
}

func execute(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}
