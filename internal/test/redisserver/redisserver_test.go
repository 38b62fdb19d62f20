package redisserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/process"
	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/redisserver"
)

func TestMain(m *testing.M) {
	process.ChildMain(host)
	leak.VerifyMain(m.Run)
}

// host runs a program that starts a server and reports its address.
func host(_ struct{}, orders *json.Decoder, reports *json.Encoder) error {
	s, err := redisserver.Start(context.Background())
	if err != nil {
		return err
	}
	if err := reports.Encode(s.Addr()); err != nil {
		return err
	}
	return orders.Decode(new(any))
}

func requireRedis(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath(redisserver.Program())
	switch {
	case err != nil && os.Getenv("LOCKMW_REQUIRE_REDIS") == "1":
		t.Fatal(err)
	case err != nil:
		t.Skip(err)
	}
}

// ping returns the server's answer to PING.
func ping(addr string) (string, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

func TestClosedServerLeavesNothing(t *testing.T) {
	requireRedis(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	s, err := redisserver.Start(t.Context(), "--appendonly", "yes")
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := ping(s.Addr()); answer != "+PONG\r\n" {
		t.Errorf("the server answers %q, %v", answer, err)
	}
	if files, err := filepath.Glob(tmp + "/*/appendonlydir"); len(files) != 1 {
		t.Errorf("the server's files: %v, %v", files, err)
	}
	s.Close()
	if _, err := ping(s.Addr()); err == nil {
		t.Error("the server still runs")
	}
	if files, err := os.ReadDir(tmp); len(files) > 0 || err != nil {
		t.Errorf("the server left %v, %v", files, err)
	}
}

func TestServerThatCannotStartReportsWhy(t *testing.T) {
	requireRedis(t)
	_, err := redisserver.Start(t.Context(), "--no-such-option", "1")
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("the error is %v", err)
	}
}

func TestMissingRedisIsAnErrorOfItsOwn(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := redisserver.Start(t.Context()); !errors.Is(err, redisserver.ErrNotInstalled) {
		t.Errorf("the error is %v", err)
	}
}

// The variable counts when a server starts: the go command knows what a test reads only from the beginning of the test.
func TestTheServersProgramIsChosen(t *testing.T) {
	t.Setenv(redisserver.Variable, "no-such-server")
	_, err := redisserver.Start(t.Context())
	if !errors.Is(err, redisserver.ErrNotInstalled) || !strings.Contains(err.Error(), "there is no no-such-server on the PATH") {
		t.Errorf("the error is %v", err)
	}
}

func TestServerEndsWithAProgramThatIsKilled(t *testing.T) {
	requireRedis(t)
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a process with its parent")
	}
	t.Setenv("TMPDIR", t.TempDir()) // the server leaves its files behind
	c, err := process.StartChild(t.Context(), struct{}{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseReports()
	defer c.Kill()
	var addr string
	if err := c.Reports.Decode(&addr); err != nil {
		t.Fatalf("%v: %s", err, c.Output())
	}
	if answer, err := ping(addr); answer != "+PONG\r\n" {
		t.Fatalf("the server answers %q, %v", answer, err)
	}
	c.Kill()
	limit := time.Now().Add(2 * time.Minute)
	for _, err = ping(addr); err == nil; _, err = ping(addr) {
		if time.Now().After(limit) {
			t.Fatal("the server still runs")
		}
	}
}
