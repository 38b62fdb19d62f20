package workload_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/bench/server"
	"github.com/lockmw/go/internal/bench/workload"
	"github.com/lockmw/go/internal/test/redistest"
)

func useCluster(t *testing.T) *server.Server {
	t.Helper()
	redistest.Redis(t) // skips without a redis-server
	s, err := server.StartCluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Without the message, only the next look at the tickets finds the grant.
func TestWaitersNoticeThatTheirMessagesAreLost(t *testing.T) {
	t.Parallel()
	r := measure(t, use(t), "lost10", lockmw(t), brief)
	waits := &r.Reports[1]
	if n := waits.Latency.Count(); n != 2 {
		t.Errorf("%d waits are timed", n)
	}
	if longest := waits.More[workload.NoticedMillis]; longest <= 0 || longest != float64(waits.Latency.Max())/1e6 {
		t.Errorf("the longest wait takes %v ms of %v", longest, waits.Latency.Max())
	}
}

func TestATicketOfADeadProcessIsFirstAndThenRemoved(t *testing.T) {
	t.Parallel()
	r := measure(t, use(t), "dead10", lockmw(t), brief)
	if len(r.Reports) != 2 {
		t.Fatalf("%d processes report", len(r.Reports))
	}
	lives := &r.Reports[1]
	if lives.Pairs != 10 || lives.Latency.Count() != 10 {
		t.Errorf("%d locks, %d timed", lives.Pairs, lives.Latency.Count())
	}
	if took := time.Duration(lives.More[workload.NoticedMillis] * 1e6); took < 2*time.Second {
		t.Errorf("the dead process was passed over after %v: its tickets did not come first", took)
	}
}

func TestTheChannelsOfAClusterAreCounted(t *testing.T) {
	t.Parallel()
	r := measure(t, useCluster(t), "inboxes100", lockmw(t), brief)
	more := r.Reports[1].More
	if n, node := more[workload.Channels], more[workload.ChannelsPerNode]; n < 60 || n > 100 || node < n/3 || node > n {
		t.Errorf("there are %v channels, %v at a node", n, node)
	}
	if each := more[workload.ChannelsPerSlot]; each != 1 {
		t.Errorf("there are %v channels for each slot", each)
	}
	if again := more[workload.SubscribesPer]; again < 1 || again > 2 {
		t.Errorf("%v SSUBSCRIBE for each lost channel", again)
	}
	if more[workload.RestCommands] <= 0 || more[workload.ResubscribeTime] < 0 {
		t.Errorf("the figures are %v", more)
	}
}

func TestListsCountTheirPasses(t *testing.T) {
	t.Parallel()
	s := use(t)
	for name, want := range map[string]struct{ listed, passes float64 }{"list1k": {1000, 2}, "top10k": {50, 1}} {
		r := measure(t, s, name, lockmw(t), brief)
		if more := r.Reports[0].More; more[workload.Listed] != want.listed || more[workload.Passes] != want.passes || more[workload.ListMillis] <= 0 {
			t.Errorf("%s: the figures are %v", name, more)
		}
		if scans := r.Stats.Calls["scan"]; scans < int64(want.passes) || r.Stats.CPU <= 0 {
			t.Errorf("%s: %d SCAN in %v of processor time", name, scans, r.Stats.CPU)
		}
	}
}

func TestTheConnectionsOfOneProcessAreCounted(t *testing.T) {
	t.Parallel()
	on := map[string]*server.Server{"connections8": use(t), "connections8-cluster": useCluster(t)}
	for name, s := range on {
		r := measure(t, s, name, lockmw(t), brief)
		more, other := r.Reports[0].More, r.Reports[1].More
		if len(other) != 0 || r.Reports[1].Pairs == 0 {
			t.Errorf("%s: the other process has %d locks and reports %v", name, r.Reports[1].Pairs, other)
		}
		first, last := more[workload.FirstConns], more[workload.Conns]
		if commands := more[workload.FirstCommands]; first < 1 || last <= first || commands < 2 {
			t.Errorf("%s: %v commands on %v connections, then %v connections", name, commands, first, last)
		}
		if each, ok := more[workload.ConnsPerNode]; ok != (s.Nodes != nil) || ok && each != last/3 {
			t.Errorf("%s: %v connections to each of 3 nodes, of %v", name, each, last)
		}
	}
}
