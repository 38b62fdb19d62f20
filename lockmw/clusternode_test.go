package lockmw_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A plain client that was pointed at a node of a Cluster learns what to use instead.
func TestAPlainClientOnAClusterNodeIsToldWhatToUse(t *testing.T) {
	server := redistest.Redis(t, "--cluster-enabled", "yes")
	rdb := server.NewClient(t)
	slots := make([]int, 16384)
	for i := range slots {
		slots[i] = i
	}
	if err := rdb.ClusterAddSlots(t.Context(), slots...).Err(); err != nil {
		t.Fatal(err)
	}
	locks := usertest.ClientOf(t, rdb)
	_, _, err := locks.TryLock(t.Context(), "user:42")
	if !errors.Is(err, lockmw.ErrUnavailable) || !strings.Contains(err.Error(), "CROSSSLOT") || !strings.Contains(err.Error(), "redis.NewClusterClient") {
		t.Errorf("got %v", err)
	}
}
