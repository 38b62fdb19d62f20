package dbtest

import (
	"context"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"testing"

	"github.com/lockmw/go/internal/test/dbserver"
)

// MariaDB starts a MariaDB server.
func MariaDB(t testing.TB) *Server {
	t.Helper()
	install := dbserver.Require(t, "mariadb-install-db", "/usr/bin", "/usr/local/bin")
	mariadbd := dbserver.Require(t, "mariadbd", "/usr/sbin", "/usr/local/sbin")
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := dbserver.Folder(t)
	data := filepath.Join(dir, "data")
	// No flush to disk, because the data is not needed after a crash. A server that starts removes the temporary tables of others in
	// its tmpdir.
	options := filepath.Join(dir, "my.cnf")
	quick := "[mysqld]\ntmpdir=" + dir + "\ninnodb_flush_method=nosync\ninnodb_flush_log_at_trx_commit=0\ninnodb_buffer_pool_size=16M\n" +
		"innodb_log_file_size=8M\ninnodb_doublewrite=0\nskip_name_resolve\nskip_log_bin\nperformance_schema=0\n"
	if err := os.WriteFile(options, []byte(quick), 0o600); err != nil {
		t.Fatal(err)
	}
	//nolint:gosec // an installed program
	dbserver.Run(t, exec.CommandContext(t.Context(), install, "--defaults-file="+options, "--user="+me.Username, "--datadir="+data,
		"--auth-root-authentication-method=normal", "--skip-test-db"))
	command := func(port string) *exec.Cmd {
		//nolint:gosec // an installed program
		return exec.CommandContext(t.Context(), mariadbd, "--defaults-file="+options, "--user="+me.Username, "--datadir="+data,
			"--port="+port, "--bind-address=127.0.0.1", "--socket="+filepath.Join(dir, "s"), "--pid-file="+filepath.Join(dir, "pid"))
	}
	admin, addr := start(t, "mysql",
		func(answers func(context.Context, string) error) *dbserver.Server {
			return dbserver.Start(t, command, answers)
		},
		func(addr string) string { return "root@tcp(" + addr + ")/mysql" })
	execute(t, admin,
		`CREATE DATABASE shop`,
		`CREATE USER shop@'%' IDENTIFIED BY 'shop'`, `GRANT ALL ON shop.* TO shop@'%'`,
		`CREATE USER guest@'%' IDENTIFIED BY 'guest'`, `GRANT SELECT ON shop.* TO guest@'%'`)
	return &Server{scheme: "mysql", addr: addr, admin: only(admin)}
}
