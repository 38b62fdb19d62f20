package dbtest

import (
	"database/sql"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// postgresFolders matches the folders in which Debian installs programs that are not on the PATH.
const postgresFolders = "/usr/lib/postgresql/*/bin"

// Postgres starts a PostgreSQL server.
func Postgres(t testing.TB) *Server {
	t.Helper()
	initdb, postgres := Require(t, "initdb", postgresFolders), Require(t, "postgres", postgresFolders)
	dir := folder(t)
	become := otherUser(t, dir)
	data := filepath.Join(dir, "data")
	command := func(path string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), path, args...) //nolint:gosec // an installed program
		cmd.Dir = dir
		become(cmd)
		return cmd
	}
	run(t, command(initdb, "--no-sync", "--auth=trust", "--username=admin", "--encoding=UTF8", "--no-locale", "-D", data))
	admin, addr := start(t, "pgx",
		func(port string) *exec.Cmd {
			return command(postgres, "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1",
				"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "synchronous_commit=off",
				"-c", "full_page_writes=off", "-c", "shared_buffers=8MB", "-c", "max_connections=100")
		},
		func(addr string) string { return "postgres://admin@" + addr + "/postgres" })
	execute(t, admin,
		`CREATE ROLE shop LOGIN PASSWORD 'shop'`,
		`CREATE ROLE guest LOGIN PASSWORD 'guest'`,
		`CREATE DATABASE shop OWNER shop`)
	cfg, err := pgx.ParseConfig("postgres://admin@" + addr + "/shop")
	if err != nil {
		t.Fatal(err)
	}
	shop := stdlib.OpenDB(*cfg)
	t.Cleanup(func() { _ = shop.Close() })
	execute(t, shop, `REVOKE CREATE ON SCHEMA public FROM PUBLIC`, `GRANT CREATE ON SCHEMA public TO shop`)
	return &Server{scheme: "postgres", addr: addr, admin: only(shop)}
}

// only limits db to one connection.
func only(db *sql.DB) *sql.DB {
	db.SetMaxOpenConns(1)
	return db
}
