package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/lockmw/go/internal/bench/crew"
	"github.com/lockmw/go/internal/bench/faulty"
	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/report"
	"github.com/lockmw/go/internal/bench/workload"
	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(&logging.VoidLogger{})
	crew.Main(workload.Work(allLibraries(), workload.All()))
	leak.VerifyMain(m.Run)
}

func allLibraries() []library.Library {
	ours := faulty.Refusing
	ours.Name, ours.Ours = "ours", true
	return append(append(library.All(), faulty.All()...), ours)
}

// longHolds is a workload in which a lock is held for 1 ms. If it does not exclude, holds overlap even on a busy machine.
const longHolds = "rw4x8"

// allWorkloads returns the workloads. longHolds also measures a lock that does not exclude.
func allWorkloads() []workload.Workload {
	all := workload.All()
	w := &all[slices.IndexFunc(all, func(w workload.Workload) bool { return w.Name == longHolds })]
	usual := w.Runs
	w.Runs = func(l library.Library) bool { return usual(l) || l.Name == faulty.Open.Name }
	return all
}

// run runs the program and returns its exit code and its output.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	b := bench{
		libraries: allLibraries(), workloads: allWorkloads(), grace: 10 * time.Second,
		out: &stdout, errs: &stderr,
	}
	if strings.Contains(strings.Join(args, " "), "deaf") {
		b.grace = 3 * time.Second
	}
	code = b.main(t.Context(), args)
	return code, stdout.String(), stderr.String()
}

func TestWrongCommandLineIsOneLineAndExitCode2(t *testing.T) {
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"-nonsense"}, "-nonsense"},
		{[]string{"-rounds", "many"}, "-rounds"},
		{[]string{"-rounds", "0"}, "-rounds 0"},
		{[]string{"-duration", "1ms"}, "-duration 1ms"},
		{[]string{"-quick", "-duration", "2h"}, "-duration 2h"},
		{[]string{"-procs", "-1"}, "-procs -1"},
		{[]string{"-work", "solo,sola"}, `-work: no "sola"; there are solo, spread64`},
		{[]string{"-libs", "lockmv"}, `-libs: no "lockmv"; there are lockmw, lockmw-fair`},
		{[]string{"-work", "queues"}, `-work: no "queues"`},
		{[]string{"-against", "get,sett"}, `-against: no "sett"`},
		{[]string{"-work", "reentry", "-libs", "raw"}, "none of these workloads"},
		{[]string{"-work", "hot32-cluster", "-redis", "127.0.0.1:1"}, "a Cluster"},
		{[]string{"-work", "solo-nodes3", "-redis", "127.0.0.1:1"}, "several servers"},
		{[]string{"-work", "waited10k-half", "-redis", "127.0.0.1:1"}, "half of the time"},
		{[]string{"-profile", "/no/such/directory"}, "-profile /no/such/directory"},
		{[]string{"solo"}, `"solo"`},
	} {
		code, out, errs := run(t, test.args...)
		if code != 2 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, test.says) {
			t.Errorf("%v: exit code %d, printed %q and %q", test.args, code, out, errs)
		}
	}
}

func TestHelpListsWorkloadsAndLibraries(t *testing.T) {
	code, out, errs := run(t, "-h")
	if code != 0 || errs != "" {
		t.Errorf("exit code %d, %q", code, errs)
	}
	for _, want := range []string{"-quick", "hot4x8", "rueidislock", "Exit code"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is missing in the help:\n%s", want, out)
		}
	}
}

func TestWithoutServerTheRunFailsInOneLine(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, args := range [][]string{{"-quick"}, {"-redis", "127.0.0.1:1"}} {
		code, out, errs := run(t, args...)
		if code != 1 || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: exit code %d, printed %q and %q", args, code, out, errs)
		}
	}
}

func TestInterruptedRunFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	b := bench{libraries: allLibraries(), workloads: workload.All(), grace: time.Second, out: &out, errs: &errs}
	if code := b.main(ctx, []string{"-redis", redistest.Redis(t).Addr()}); code != 1 {
		t.Errorf("exit code %d: %s", code, &errs)
	}
}

func TestEveryLineOfJSONHasTheUsualFigures(t *testing.T) {
	code, out, errs := run(t, "-json", "-redis", redistest.Redis(t).Addr(), "-rounds", "2", "-duration", "30ms",
		"-work", "solo,hot32", "-libs", "lockmw,raw,redislock,rueidislock")
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	figures, goals := make(map[string]bool), 0
	for line := range strings.Lines(out) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if v["goal"] != nil {
			goals++
			continue
		}
		name := v["workload"].(string) + " " + v["library"].(string)
		figures[name] = true
		for _, key := range []string{"ops_per_s", "p50_us", "p99_us", "max_us", "cmds_per_op", "redis_cpu_us_per_op", "allocs_per_op"} {
			if f, ok := v[key].(float64); !ok || f < 0 {
				t.Errorf("%s: %s is %v", name, key, v[key])
			}
		}
		if jain, ok := v["jain"]; !ok || (jain == nil) != (v["workload"] == "solo") {
			t.Errorf("%s: the index of fairness is %v", name, v["jain"])
		}
	}
	if len(figures) != 8 || goals != 4 {
		t.Errorf("%d lines of figures and %d goals:\n%s", len(figures), goals, out)
	}
}

func TestTableEndsWithTheGoals(t *testing.T) {
	code, out, errs := run(t, "-quick", "-rounds", "1", "-duration", "30ms", "-redis", redistest.Redis(t).Addr(),
		"-work", "solo", "-libs", "lockmw,raw")
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	_, goals, _ := strings.Cut(out, "goal")
	if !strings.Contains(out, "p50 µs") || !strings.Contains(goals, "p50 / raw") {
		t.Errorf("printed:\n%s", out)
	}
}

func TestEachRoundBeginsWithAnotherLibrary(t *testing.T) {
	for round, want := range [][]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}, {0, 1, 2}} {
		if got := turns(3, round); !slices.Equal(got, want) {
			t.Errorf("round %d goes %v, want %v", round, got, want)
		}
	}
}

func TestWorkloadsThatAreComparedTakeTurns(t *testing.T) {
	var got []string
	for _, group := range groups(workload.All()) {
		var names []string
		for _, w := range group {
			names = append(names, w.Name)
		}
		if len(names) > 1 {
			got = append(got, strings.Join(names, " "))
		}
	}
	want := []string{
		"queue10 queue100 queue1000 queue5000",
		"hot32-alone hot32-cluster", "spread64-alone spread64-cluster", "handoff-alone handoff-cluster",
		"once1 once16 once64", "replay1 replay16 replay64", "spread64-nopage spread64-page",
		"solo-nodes3 solo-nodes3-dead", "solo-nodes5 solo-nodes5-dead",
	}
	if !slices.Equal(got, want) {
		t.Errorf("together are %q, want %q", got, want)
	}
}

func TestAClusterIsComparedWithOneServerOnTheSameMachine(t *testing.T) {
	redistest.Redis(t) // skips without a redis-server
	code, out, errs := run(t, "-json", "-rounds", "1", "-duration", "50ms", "-work", "hot32-alone,hot32-cluster,handoff-alone,handoff-cluster")
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	goals := 0
	for line := range strings.Lines(out) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		name, _ := v["workload"].(string)
		if v["goal"] != nil {
			goals++
			if v["state"] == string(report.NotMeasured) {
				t.Errorf("not measured: %s", line)
			}
		} else if bus, ok := v[report.BusPer]; ok != strings.HasSuffix(name, "-cluster") || ok && bus != 0.0 {
			t.Errorf("messages between nodes: %s", line)
		}
	}
	if goals != 3 {
		t.Errorf("%d goals: %s", goals, out)
	}
}

func TestEachGoalOfSeveralServersHasAFigure(t *testing.T) {
	var names []string
	for _, w := range workload.All() {
		if w.Nodes == 3 {
			names = append(names, w.Name)
		}
	}
	everyGoalHasAFigure(t, 7, names...)
}

func TestEachGoalOfSemaphoresHasAFigure(t *testing.T) {
	everyGoalHasAFigure(t, 7, "sem32x8", "sem32x8-20ms")
}

func TestEachGoalOfIdempotentCallsHasAFigure(t *testing.T) {
	everyGoalHasAFigure(t, 12, "once", "replay", "oncefaults")
}

func TestAGroupOfWorkloadsCanBeChosenByItsName(t *testing.T) {
	b := bench{libraries: allLibraries(), workloads: workload.All()}
	for list, want := range map[string]string{
		"queue": "queue10 queue100 queue1000 queue5000", "once1": "once1", "replay64,once": "once1 once16 once64 replay64",
		"hot32-cluster": "hot32-cluster", // also the name of a group
	} {
		s, err := b.parse([]string{"-work", list}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range s.workloads {
			got = append(got, w.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("-work %s: %v, want %s", list, got, want)
		}
	}
}

func TestRatiosFollowTheTable(t *testing.T) {
	code, out, errs := run(t, "-rounds", "2", "-duration", "30ms", "-redis", redistest.Redis(t).Addr(),
		"-work", "once1,replay1", "-libs", "lockmw-once,setnx,get", "-against", "get,setnx")
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	for _, want := range []string{"lockmw-once / setnx", "lockmw-once / get", "setnx / get"} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q:\n%s", want, out)
		}
	}
}

// everyGoalHasAFigure fails unless the workloads have that many goals, and a figure for each.
func everyGoalHasAFigure(t *testing.T, want int, names ...string) {
	t.Helper()
	redistest.Redis(t) // skips without a redis-server
	code, out, errs := run(t, "-json", "-rounds", "1", "-duration", "200ms", "-work", strings.Join(names, ","))
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	goals := strings.Count(out, `"goal"`)
	if measured := strings.Count(out, `"measured":`) - strings.Count(out, `"measured":null`); goals != want || measured != goals {
		t.Errorf("%d goals, %d with a figure: %s", goals, measured, out)
	}
}

func TestAnExternalServerIsNotComparedWithACluster(t *testing.T) {
	b := bench{libraries: allLibraries(), workloads: workload.All()}
	s, err := b.parse([]string{"-redis", "127.0.0.1:1"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(s.workloads, needsOwn) || len(s.workloads) == 0 {
		t.Errorf("%d workloads", len(s.workloads))
	}
}

func TestMissedGoalFailsOnlyAStrictRun(t *testing.T) {
	args := []string{"-rounds", "1", "-duration", "20ms", "-redis", redistest.Redis(t).Addr()}
	for _, test := range []struct {
		args []string
		want int
	}{
		{[]string{"-work", "solo", "-libs", "raw", "-strict"}, 0}, // no measured workload has a goal
		{[]string{"-work", "hot32", "-libs", "lockmw,sound"}, 0},  // 50 times as fast as a channel: missed
		{[]string{"-work", "hot32", "-libs", "lockmw,sound", "-strict"}, 1},
	} {
		if code, out, errs := run(t, append(args, test.args...)...); code != test.want || errs != "" {
			t.Errorf("%v: exit code %d, %s\n%s", test.args, code, errs, out)
		}
	}
}

func TestLibraryThatDoesNotExcludeIsNamed(t *testing.T) {
	code, out, errs := run(t, "-json", "-rounds", "2", "-duration", "20ms", "-redis", redistest.Redis(t).Addr(),
		"-work", longHolds, "-libs", "lockmw,open")
	if code != 0 || !strings.Contains(errs, "open DOES NOT EXCLUDE in "+longHolds) || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if !strings.Contains(out, `"library":"lockmw"`) || !strings.Contains(out, `"error":"mutual exclusion violated`) {
		t.Errorf("printed:\n%s", out)
	}
}

func TestAFailureOfThisModuleFailsTheRun(t *testing.T) {
	code, _, errs := run(t, "-json", "-rounds", "2", "-duration", "20ms", "-redis", redistest.Redis(t).Addr(),
		"-work", "solo", "-libs", "raw,ours")
	if code != 1 || !strings.Contains(errs, "ours failed in solo: ") || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

func TestLibraryThatHangsDoesNotHangTheRun(t *testing.T) {
	code, out, errs := run(t, "-json", "-rounds", "2", "-duration", "20ms", "-redis", redistest.Redis(t).Addr(),
		"-work", "solo", "-libs", "raw,deaf")
	if code != 0 || !strings.Contains(errs, "deaf hung in solo") || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit code %d: %s", code, errs)
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, `"library":"raw"`) && strings.Contains(line, "error") {
			t.Errorf("the library that does not hang was not measured: %s", line)
		}
	}
}

func TestAQuickRunLeavesOutLongWorkloads(t *testing.T) {
	b := bench{libraries: allLibraries(), workloads: workload.All()}
	for _, name := range []string{"held200k", "waited10k", "waited10k-half", "once16"} {
		for line, want := range map[string]bool{"": true, "-quick": false, "-quick -work " + name: true} {
			s, err := b.parse(strings.Fields(line), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.ContainsFunc(s.workloads, func(w workload.Workload) bool { return w.Name == name }); got != want {
				t.Errorf("%q has %s: %t, want %t", line, name, got, want)
			}
		}
	}
}
