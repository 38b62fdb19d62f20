package workload_test

import "testing"

func TestBothCallsOfAContentionAreCounted(t *testing.T) {
	t.Parallel()
	r := measure(t, use(t), "contended", lockmw(t), brief)
	holder, waiter := &r.Reports[0], &r.Reports[1]
	if holder.Pairs != waiter.Pairs || holder.Pairs < 1 {
		t.Fatalf("the holder has %d locks, the waiter %d", holder.Pairs, waiter.Pairs)
	}
	pairs := holder.Pairs + waiter.Pairs
	if published := r.Stats.Calls["publish"]; published < holder.Pairs {
		t.Errorf("%d messages for %d waits: %v", published, holder.Pairs, r.Stats.Calls)
	}
	if sent := sentCommands(r); sent < 2*pairs || sent > 4*pairs+20 {
		t.Errorf("%d commands for %d locks: %v", sent, pairs, r.Stats.Calls)
	}
}
