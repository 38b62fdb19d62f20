package workload_test

import (
	"testing"

	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/server"
	"github.com/lockmw/go/internal/bench/workload"
	"github.com/lockmw/go/internal/test/redistest"
)

func TestAllReachableServersAreAsked(t *testing.T) {
	t.Parallel()
	redistest.Redis(t) // skips without a redis-server
	nodes, err := server.StartNodes(t.Context(), workload.MostNodes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nodes.Close() })
	for _, name := range []string{"solo-nodes3", "solo-nodes5", "solo-nodes5-dead", "hot32-nodes3"} {
		w := named(t, name)
		for _, l := range library.All() {
			if !w.Runs(l) {
				continue
			}
			r := measure(t, nodes.First(w.Nodes, w.Dead), name, l, brief)
			sent, pairs := r.Stats.Sent(l.Sends), r.Reports[0].Pairs
			if least := int64(w.Nodes-w.Dead) * pairs; name != "hot32-nodes3" && sent < least {
				t.Errorf("%s, %s: %d commands for %d pairs, want %d", name, l.Name, sent, pairs, least)
			}
		}
	}
}
