package workload_test

import (
	"strings"
	"testing"

	"github.com/lockmw/go/internal/bench/workload"
)

func TestKeysWithWaitersAreCountedAtRestAndThenServed(t *testing.T) {
	t.Parallel()
	r := measure(t, use(t), "waited2k", lockmw(t), brief)
	holder, waiters := r.Reports[0].More, r.Reports[1]
	if len(holder) != 0 || waiters.Pairs != 2000 || waiters.Latency.Count() != 2000 || waiters.Elapsed <= 0 {
		t.Errorf("the holder reports %v; %d waiters served, %d timed, in %v", holder, waiters.Pairs, waiters.Latency.Count(), waiters.Elapsed)
	}
	for _, name := range []string{
		workload.RestCommands, workload.RestCalls, workload.RestCores, workload.PingP99, workload.PingMax, workload.ServedMillis,
		workload.LongestGap, workload.ServedCores, workload.ScriptsPer,
	} {
		if v, ok := waiters.More[name]; !ok || v <= 0 {
			t.Errorf("%s is %v in %v", name, v, waiters.More)
		}
	}
	if more := waiters.More; more[workload.QueuedShare] != 1 || more[workload.ServedShare] != 1 || more[workload.FailedCalls] != 0 ||
		more[workload.RestCommands] > more[workload.RestCalls] || more[workload.ScriptsPer] > 20 {
		t.Errorf("the figures are %v", more)
	}
}

func TestOnlyAServerOfTheBenchmarkIsStopped(t *testing.T) {
	t.Parallel()
	_, err := named(t, "waited10k-half").Measure(t.Context(), use(t), lockmw(t), brief)
	if err == nil || !strings.Contains(err.Error(), "can be halved") {
		t.Errorf("the error is %v", err)
	}
}
