package script_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// The memory for the arguments of a plain acquire is part of its Call.
func TestAPlainAcquireNeedsFewAllocations(t *testing.T) {
	layout, set := script.NewLayout("lockmw", transport.Topology{Single: true}), script.NewSet(script.DefaultParams(true))
	keys := layout.KeySet("order:1")
	stem, n := script.IDStem("process."), uint64(0)
	ctx, done := context.Background(), func(*transport.Reply) {}
	allocs := testing.AllocsPerRun(100, func() {
		n++
		a := script.Acquire{
			Keys: &keys, ID: stem.New(n), Lease: 10 * time.Second, Mode: core.Exclusive, Inbox: any("inbox"), Tokens: 1, QueueTokens: 33,
			MayBatch: true,
		}
		a.Call(ctx, set, done)
	})
	if allocs > 5 {
		t.Errorf("%v allocations, want 5: the Call, the id, the done mark, the lease, and the text of the holder", allocs)
	}
}
