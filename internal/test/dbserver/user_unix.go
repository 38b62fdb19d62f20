//go:build unix

package dbserver

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
	"testing"
)

// otherUser gives the folder to the user "postgres" and returns a function that makes a command run as this user, because
// PostgreSQL refuses to run as root. If the test does not run as root, it does nothing.
func otherUser(t testing.TB, dir string) (become func(*exec.Cmd)) {
	t.Helper()
	if os.Getuid() != 0 {
		return func(*exec.Cmd) {}
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(u.Uid) // a number on every unix
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
}
