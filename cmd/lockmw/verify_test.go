package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/cmd/lockmw/internal/verify"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/transport"
)

// quick are the flags of a short run.
var quick = []string{"verify", "--yes", "--for", "3s", "--lease", "500ms", "--share", "0.3", "--processes", "3"}

// verifyOn runs verify for a URL.
func verifyOn(t *testing.T, url string, flags ...string) result {
	t.Helper()
	r := call{args: append(append(slices.Clip(quick), flags...), "--redis", url)}.run(t.Context())
	t.Log(r.out)
	return r
}

// keysOf returns all keys of a server.
func keysOf(t *testing.T, d redistest.Deployment) []string {
	t.Helper()
	keys, err := redistest.Keys(t.Context(), d.Universal(t), "")
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// children returns the ids of the processes that this one has started and that still run.
func children(t *testing.T) (pids []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) && strings.Contains(string(environ), "LOCKMW_CHILD=") {
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}

func TestVerifyAccusesNoHealthyServer(t *testing.T) {
	s := redistest.Redis(t)
	if err := s.NewClient(t).Set(t.Context(), "lockmw:foreign", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report.md")
	r := verifyOn(t, s.Addr(), "--report", report)
	untried := func() int { return strings.Count(r.out, "not tried") }
	for more := 5; more > 0 && untried() > 2; more-- { // a busy machine has little time for faults
		r = verifyOn(t, s.Addr(), "--report", report)
	}
	r.want(t, statusDone, "at most 1,000 keys", "one server: 3 processes", "\nholds: no promise was broken\n", "no overlap", "free lock ", "WAIT not measured")
	if n, _, _ := strings.Cut(regexp.MustCompile(`\d+ holds`).FindString(r.out), " "); len(n) < 2 {
		t.Errorf("only %s holds were tried", n)
	}
	if strings.Contains(r.out, "one server with") || untried() > 2 { // the fail-over, and on a busy machine one more
		t.Error("a promise was not tried")
	}
	if keys := keysOf(t, s); len(keys) != 1 || keys[0] != "lockmw:foreign" {
		t.Errorf("the keys are %q", keys)
	}
	if pids := children(t); len(pids) > 0 {
		t.Errorf("the processes %q still run", pids)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"- Verdict: **holds: no promise was broken**", "| promise | tried | seen |", "one server: 3 processes", "- Costs: free lock"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}

// The other kinds of servers, with the program in LOCKMW_REDIS_SERVER.
func TestVerifyAccusesNoClusterAndNoSentinel(t *testing.T) {
	suite.NeedsFull(t, "starts several servers")
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.NewCluster(t, 3, 1)
		verifyOn(t, "redis+cluster://"+c.Servers()[0].Addr()).want(t, statusDone, "a Cluster of 3 masters with 3 replicas", "holds: no promise was broken")
		if keys := keysOf(t, c); len(keys) > 0 {
			t.Errorf("the keys %q are left", keys)
		}
	})
	t.Run("fail-over", func(t *testing.T) { // an acknowledged lock survives a fail-over
		t.Parallel()
		s := redistest.NewSentinel(t, 1, 3)
		url := fmt.Sprintf("redis+sentinel://%s/%s", strings.Join(s.Addrs(), ","), redistest.MasterName)
		var out strings.Builder
		io := console{in: &trigger{do: func() { s.Failover() }}, out: &out, err: t.Output(), env: func(string) string { return "" }}
		status := run(t.Context(), io, append(slices.Clip(quick), "--redis", url, "--for", "1s", "--replicas", "1", "--failover"))
		t.Log(out.String())
		result{status: status, out: out.String()}.want(t, statusDone, "0 of 15 locks were lost", "none lost", "holds: no promise was broken")
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		s := redistest.NewSentinel(t, 1, 3)
		url := fmt.Sprintf("redis+sentinel://%s/%s", strings.Join(s.Addrs(), ","), redistest.MasterName)
		r := verifyOn(t, url, "--replicas", "1")
		r.want(t, statusDone, "a master behind Sentinels with 1 replica", "holds: no promise was broken")
		if !regexp.MustCompile(`WAIT \d`).MatchString(r.out) {
			t.Error("WAIT was not measured")
		}
		if keys := keysOf(t, s); len(keys) > 0 {
			t.Errorf("the keys %q are left", keys)
		}
	})
}

func TestVerifyPrintsJSON(t *testing.T) {
	t.Parallel()
	r := lockmwOn(t, redistest.Mini(t), "verify", "--yes", "--json", "--for", "1s", "--lease", "400ms", "--share", "0.3", "--processes", "2")
	r.want(t, statusDone)
	var got struct {
		Verdict  string
		Holds    int
		Promises []struct{ Promise string }
		Findings []any
		Costs    struct {
			Pair struct {
				Median float64 `json:"median_ms"`
			}
		}
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatalf("%v: %s", err, r.out)
	}
	if got.Verdict != "holds" || got.Holds == 0 || len(got.Promises) != 9 || got.Findings == nil || got.Costs.Pair.Median <= 0 {
		t.Errorf("%+v", got)
	}
}

func TestVerifyAsksBeforeItWrites(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	args := []string{"verify", "--redis", s.Addr(), "--for", "1s"}
	call{args: args, in: "no\n"}.run(t.Context()).want(t, statusUnconfirmed, "at most 1,000 keys, below lockmw:inbox:verify-", "Type yes: ", "nothing was written")
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var out strings.Builder
	status := run(t.Context(), console{in: null, out: &out, err: &out, env: func(string) string { return "" }}, args)
	result{status: status, out: out.String()}.want(t, statusUsage, "not a terminal: confirm with --yes")
	if keys := s.Mini.Keys(); len(keys) > 0 {
		t.Errorf("it has written %q", keys)
	}
}

// The user of docs/operations.md may do everything that the command does.
func TestVerifyNeedsOnlyTheRightsOfLocks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?s)redis-cli (ACL SETUSER orders reset.*?)\n` + "```").FindSubmatch(page)
	if line == nil {
		t.Fatal("docs/operations.md has no user")
	}
	var words []any
	for word := range strings.FieldsSeq(strings.NewReplacer("\\\n", " ", "'", "").Replace(string(line[1]))) {
		words = append(words, word)
	}
	s := redistest.Redis(t)
	if err := s.NewClient(t).Do(t.Context(), words...).Err(); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"LOCKMW_USER": "orders", "LOCKMW_PASSWORD": "a-long-password"}
	r := call{args: append(slices.Clip(quick), "--for", "1s", "--redis", s.Addr()), env: env}.run(t.Context())
	r.want(t, statusDone, "one server: ", "holds: no promise was broken")
	if denied := s.NewClient(t).ACLLog(t.Context(), 10).Val(); len(denied) > 0 {
		for _, d := range denied {
			if d.Object != "client|setinfo" {
				t.Errorf("denied: %s, %s %s", d.Reason, d.Context, d.Object)
			}
		}
	}
	if strings.Contains(r.out, "unknown") {
		t.Error("the version is unknown")
	}
	if strings.Contains(r.out+r.err, "a-long-password") {
		t.Error("the output has the password")
	}
}

// otherProgram writes a shell script. "$0" in its text becomes this test's program, which can be a process of verify.
func otherProgram(t *testing.T, text string) (path string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "lockmw-old")
	text = "#!/bin/sh\n" + strings.ReplaceAll(text, `"$0"`, "'"+program+"'") + "\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVerifyRunsAnotherReleaseNextToThisOne(t *testing.T) {
	t.Parallel()
	started := filepath.Join(t.TempDir(), "started")
	old := otherProgram(t, "echo started >>'"+started+`'; exec "$0"`)
	r := lockmwOn(t, redistest.Redis(t), append(slices.Clip(quick), "--processes", "4", "--with", old)...)
	r.want(t, statusDone, ", every second one with "+old, "holds: no promise was broken")
	if lines, err := os.ReadFile(started); strings.Count(string(lines), "\n") < 2 {
		t.Errorf("the other program was started for %q (%v)", lines, err)
	}
}

// This is what the comparison with the last release finds if a change of the layout goes unnoticed.
func TestVerifyNoticesThatAnotherReleaseUsesOtherKeys(t *testing.T) {
	t.Parallel()
	old := otherProgram(t, `sed -u 's/inbox:verify-/inbox:verify-other-/' | exec "$0"`)
	lockmwOn(t, redistest.Redis(t), append(slices.Clip(quick), "--with", old)...).want(t, statusFailed, "broken: ", "two holders at the same time")
}

func TestVerifyNamesAProgramThatIsNoRelease(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	lockmwOn(t, s, "verify", "--yes", "--with", "/nowhere/lockmw").want(t, statusUsage, "--with: ", "/nowhere/lockmw")
	none := otherProgram(t, "echo no such command >&2")
	lockmwOn(t, s, append(slices.Clip(quick), "--with", none)...).want(t, statusFailed, "no such command")
}

// The system may kill a process that takes too much memory. Such a process says nothing.
func TestVerifyNoticesThatAProcessWasKilled(t *testing.T) {
	t.Parallel()
	short := otherProgram(t, `(sleep 1; kill -9 $$) >/dev/null 2>&1 & exec "$0"`)
	lockmwOn(t, redistest.Redis(t), append(slices.Clip(quick), "--with", short)...).want(t, statusFailed, "a process ", ": signal: killed")
}

// Ctrl-C leaves nothing behind.
func TestInterruptedVerifyLeavesNothingBehind(t *testing.T) {
	s := redistest.Redis(t)
	rdb := s.NewClient(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // interrupts it when it has taken locks
		for ctx.Err() == nil {
			if keys, _ := redistest.Keys(ctx, rdb, "lockmw:inbox:verify-*{plain:"); len(keys) > 0 {
				cancel()
			}
		}
	}()
	r := call{args: append(slices.Clip(quick), "--for", "1h", "--redis", s.Addr())}.run(ctx)
	r.want(t, 130, "interrupted: no promise was broken until then")
	if keys := keysOf(t, s); len(keys) > 0 {
		t.Errorf("the keys %q are left", keys)
	}
	if pids := children(t); len(pids) > 0 {
		t.Errorf("the processes %q still run", pids)
	}
}

// The server itself counts the scripts.
func TestVerifyTakesOnlyItsShare(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	r := lockmwOn(t, s, "verify", "--yes", "--json", "--for", "2s", "--lease", "500ms", "--share", "0.002")
	r.want(t, statusDone)
	var run struct{ Started, Ended time.Time }
	if err := json.Unmarshal([]byte(r.out), &run); err != nil {
		t.Fatal(err)
	}
	stats, err := transport.ReadInfo(t.Context(), s.NewClient(t), "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	_, _ = fmt.Sscanf(stats["cmdstat_evalsha"], "calls=%d,", &n)
	took := run.Ended.Sub(run.Started)
	// 141 to 277; with a share of 0.5 it sends at least 483. On a busy machine it may take half a minute for 8 in a second, and with a
	// share of 0.5 for 100 in a second.
	if n == 0 || float64(n) > max(350, 30*took.Seconds()) {
		t.Errorf("with a small share it sent %d scripts in %v", n, took)
	}
}

func TestVerifyReportsAServerThatRefuses(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	if err := s.NewClient(t).ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	r := lockmwOn(t, s, "verify", "--yes", "--for", "1s", "--timeout", "2s")
	if r.want(t, statusFailed, "OOM"); strings.Contains(r.out, "PROMISE") {
		t.Error("it prints a verdict")
	}
	call{args: []string{"verify", "--yes", "--redis", "127.0.0.1:1"}}.run(t.Context()).want(t, statusFailed, "connection refused")
}

func TestVerifyRefusesInvalidFlags(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	for _, args := range [][]string{
		{"--for", "1ms"}, {"--processes", "1"}, {"--lease", "1ms"}, {"--share", "0"}, {"--share", "NaN"}, {"--replicas", "-1"},
		{"--failover=later"}, {"--failover", "later"}, {"30s"}, {"--report", "/nowhere/report.md"},
	} {
		lockmwOn(t, s, append([]string{"verify", "--yes"}, args...)...).want(t, statusUsage)
	}
}

// A pipeline sees only the exit status.
func TestVerifyFailsWithoutTheFailoverThatWasAskedFor(t *testing.T) {
	for want, r := range map[int]*verify.Result{
		statusDone: {}, statusFailed: {NoFailover: true}, 130: {NoFailover: true, Interrupted: true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if r.Interrupted {
			cancel()
		}
		c := &command{}
		if got := c.exitStatus(ctx, (&proof{command: c}).status(ctx, r)); got != want {
			t.Errorf("%q: the exit status is %d, want %d", r.Verdict(), got, want)
		}
		cancel()
	}
}

func TestNumbersHaveCommas(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := verify.Thousands(n); got != want {
			t.Errorf("%d becomes %q, want %q", n, got, want)
		}
	}
}

func TestDurationsArePrintedShortly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 2 * time.Minute: "2m", 90 * time.Second: "1m30s", time.Hour: "1h", 70 * time.Minute: "1h10m", 1500 * time.Millisecond: "1.5s",
	} {
		if got := shortly(d); got != want {
			t.Errorf("%v becomes %q, want %q", d, got, want)
		}
	}
}
