package dbserver

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
)

// postgresFolders matches the folders in which Debian installs programs that are not on the PATH.
const postgresFolders = "/usr/lib/postgresql/*/bin"

// Postgres starts a PostgreSQL server. Its user "admin" may do everything, without a password. answers returns nil if the server at
// addr answers.
func Postgres(t testing.TB, answers func(ctx context.Context, addr string) error) *Server {
	t.Helper()
	initdb, postgres := Require(t, "initdb", postgresFolders), Require(t, "postgres", postgresFolders)
	dir := Folder(t)
	become := otherUser(t, dir)
	data := filepath.Join(dir, "data")
	command := func(path string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), path, args...)
		cmd.Dir = dir
		become(cmd)
		return cmd
	}
	Run(t, command(initdb, "--no-sync", "--auth=trust", "--username=admin", "--encoding=UTF8", "--no-locale", "-D", data))
	return Start(t, func(port string) *exec.Cmd {
		return command(postgres, "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "synchronous_commit=off",
			"-c", "full_page_writes=off", "-c", "shared_buffers=8MB", "-c", "max_connections=400")
	}, answers)
}
