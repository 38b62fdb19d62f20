package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/lockmw/go/examples/stock/internal/dbtest"
	"github.com/lockmw/go/examples/stock/internal/report"
	"github.com/lockmw/go/examples/stock/internal/settings"
	"github.com/lockmw/go/examples/stock/internal/shop"
	"github.com/lockmw/go/examples/stock/internal/ways"
	"github.com/lockmw/go/internal/process"
	"github.com/lockmw/go/internal/test/dbserver"
	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

// TestMain checks that no goroutines and no temporary folders remain.
func TestMain(m *testing.M) {
	process.ChildMain(shop.Live)
	if os.Getenv("STOCK_TEST_MAIN") == "1" {
		main()
	}
	leak.VerifyMain(leak.Files(m.Run))
}

const nobody = "127.0.0.1:1" // nothing listens at this address

// small is a crowd small enough for an embedded Redis on a busy machine under the race detector.
var small = []string{"-users", "16", "-stock", "4", "-json"}

// runWays runs the example and returns the report of its last line.
func runWays(t *testing.T, args ...string) report.Report {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), append(small, args...), &stdout, &stderr); code != exitOK {
		t.Fatalf("exit status %d\n%s%s", code, &stdout, &stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	var r report.Report
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		t.Fatalf("the last line is not the figures: %v\n%s", err, &stdout)
	}
	return r
}

// checkWays checks that each way behaved as expected, including its faults.
func checkWays(t *testing.T, r report.Report) {
	t.Helper()
	all := ways.All()
	if len(r.Ways) != len(all) {
		t.Fatalf("%d ways were run, want %d", len(r.Ways), len(all))
	}
	for i, row := range r.Ways {
		if row.Skipped != "" {
			dbserver.Require(t, "memcached")
		}
		checkWay(t, all[i], row)
	}
	checkKeys(t, r)
}

func checkWay(t *testing.T, way ways.Way, row report.Row) {
	t.Helper()
	if row.Name != way.Name || row.Failed != "" || row.Skipped == "" && (row.PerSecond <= 0 || row.P99 < row.P50) {
		t.Errorf("%s: the row is %+v", way.Name, row)
	}
	if way.Kept && (row.Oversold+row.Duplicates+row.LostOrders+row.Unsold > 0 || row.Sold != 4 && way.Disturb == nil) {
		t.Errorf("%s: %d sold of 4, %d oversold, %d duplicates, %d unsold, %d lost",
			way.Name, row.Sold, row.Oversold, row.Duplicates, row.Unsold, row.LostOrders)
	}
	if len(row.Scripts) == 0 && row.Skipped == "" {
		t.Errorf("%s: nothing says what goes wrong", way.Name)
	}
	for _, s := range row.Scripts {
		if s.Failed != "" || s.Skipped == "" && !s.Seen {
			t.Errorf("%s: when %s: %+v %s", way.Name, s.Name, s.Facts, s.Failed)
		}
	}
}

func TestEveryWayBehavesAsExpected(t *testing.T) {
	checkWays(t, runWays(t))
}

func TestEveryWayOnPostgreSQL(t *testing.T) {
	suite.NeedsFull(t, "a server, and all ways on it")
	t.Parallel()
	onServer(t, dbtest.Postgres(t))
}

func TestEveryWayOnMariaDB(t *testing.T) {
	suite.NeedsFull(t, "a server, and all ways on it")
	t.Parallel()
	onServer(t, dbtest.MariaDB(t))
}

// onServer runs all ways on a database and a real Redis, and checks that nothing remains there.
func onServer(t *testing.T, db *dbtest.Server) {
	rdb := redistest.Redis(t)
	r := runWays(t, "-db", db.URL("shop"), "-redis", rdb.Addr())
	checkWays(t, r)
	if strings.Contains(r.Database, "SQLite") || strings.Contains(r.Redis, "embedded") {
		t.Errorf("it ran on %s and %s", r.Database, r.Redis)
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-db", db.URL("guest")}, &stdout, &stderr); code != exitUsage {
		t.Errorf("a user who may only look: exit status %d, want %d", code, exitUsage)
	}
	if said := stderr.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "lacks a right") {
		t.Errorf("for a user without rights it prints %q, want one line", said)
	}
	if n := db.Tables(t); n != 0 {
		t.Errorf("%d tables are left", n)
	}
	if keys, err := rdb.NewClient(t).Keys(t.Context(), "*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("left in Redis: %v, %v", keys, err)
	}
}

// While a click waits for its payment, the others of its user arrive, even on a busy machine.
func TestTheCrowdDetectsBrokenLocks(t *testing.T) {
	none := runWays(t, "-ways", "none", "-payment", "50ms").Ways[0]
	if none.Oversold == 0 || none.Duplicates == 0 {
		t.Errorf("without a guard %d were oversold and %d ordered twice", none.Oversold, none.Duplicates)
	}
}

func TestABrokenPromiseIsDetected(t *testing.T) {
	cfg, err := settings.Parse([]string{"-users", "16", "-stock", "4", "-payment", "5ms", "-ways", "none"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, kept := range []bool{true, false} {
		cfg.Ways[0].Kept = kept
		var stdout bytes.Buffer
		broken, err := compare(t.Context(), cfg, &stdout, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(stdout.String(), "Promises broken by: none."); broken != kept || said != kept {
			t.Errorf("should it keep its promises? %t; broken: %t\n%s", kept, broken, &stdout)
		}
	}
}

func TestWithoutMemcached(t *testing.T) {
	t.Setenv("PATH", "")
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-ways", "memcached"}, &stdout, &stderr); code != exitOK {
		t.Errorf("exit status %d, want %d: %s", code, exitOK, &stderr)
	}
	if !strings.Contains(stdout.String(), "skipped: memcached is not installed") {
		t.Errorf("the reason for skipping is missing:\n%s", &stdout)
	}
}

// An interrupter is a standard error that interrupts the program at its first write.
type interrupter struct {
	bytes.Buffer
	interrupt context.CancelFunc
}

func (i *interrupter) Write(p []byte) (int, error) {
	i.interrupt()
	return i.Buffer.Write(p)
}

func TestInterruptedInTheMiddle(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stderr := &interrupter{interrupt: cancel}
	var stdout bytes.Buffer
	code := run(ctx, []string{"-users", "100000"}, &stdout, stderr)
	if code != exitInterrupted || stdout.Len() > 0 || !strings.HasSuffix(stderr.String(), "\nstock: interrupted\n") {
		t.Errorf("exit status %d, stdout %q, stderr %q", code, &stdout, stderr)
	}
}
