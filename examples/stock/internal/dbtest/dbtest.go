// Package dbtest runs databases for tests: PostgreSQL and MariaDB, in temporary folders and on free ports.
package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the drivers
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/lockmw/go/internal/process"
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

// Require skips the test if a program is not installed, or fails it if LOCKMW_REQUIRE_DATABASES is 1.
func Require(t testing.TB, program string, folders ...string) (path string) {
	t.Helper()
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join(folder, program))
		if err == nil && len(found) > 0 {
			slices.Sort(found)
			return found[len(found)-1]
		}
	}
	if os.Getenv("LOCKMW_REQUIRE_DATABASES") == "1" {
		t.Fatalf("%s is required, and not installed", program)
	}
	t.Skipf("%s is not installed", program)
	return ""
}

// folder returns a folder for a server's data. Unlike t.TempDir, other users may access it.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "stock-db-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// run runs a program until it ends.
func run(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// start runs a server until the test ends, and connects to it as the administrator. It retries, because another process may
// take the free port first.
func start(t testing.TB, driver string, command func(port string) *exec.Cmd, dsn func(addr string) string) (*sql.DB, string) {
	t.Helper()
	const tries = 5
	var err error
	for range tries {
		var addr string
		if addr, err = process.FreeAddr(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(addr)
		var p *process.Process
		if p, err = process.Start(command(port)); err != nil {
			t.Fatal(err)
		}
		var db *sql.DB
		if db, err = sql.Open(driver, dsn(addr)); err != nil {
			t.Fatal(err)
		}
		if err = awaitAnswer(t.Context(), db, p); err == nil {
			t.Cleanup(func() { _ = db.Close(); p.Kill() })
			return db, addr
		}
		_ = db.Close()
		p.Kill()
	}
	t.Fatal(err)
	return nil, ""
}

func awaitAnswer(ctx context.Context, db *sql.DB, p *process.Process) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.Ended():
			return fmt.Errorf("the server ended immediately: %s", p.Output())
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w: %s", err, p.Output())
		}
	}
}

func execute(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}
