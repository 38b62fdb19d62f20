package quorum

import (
	"context"
	"fmt"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/engine"
)

// carryKey is a key that nobody locks: the counters are those of all keys.
const carryKey = "carry"

// CarryTokens raises the counters of other servers to the greatest of these nodes. Of N nodes, N-k+1 have to answer: one of
// them knows the token of every hold.
func (l *Locks) CarryTokens(ctx context.Context, to []*engine.Engine) error {
	last := make([]int64, len(l.nodes))
	errs := make([]error, len(l.nodes))
	each(l.nodes, func(n *node) {
		inner, cancel := context.WithTimeout(ctx, l.cfg.Limit)
		defer cancel()
		last[n.index], errs[n.index] = n.engine.Counter(inner, carryKey)
	})
	answered, greatest, why := 0, int64(0), error(nil)
	for i, err := range errs {
		if err != nil {
			why = err
			continue
		}
		answered++
		greatest = max(greatest, last[i])
	}
	if need := len(l.nodes) - l.cfg.Quorum + 1; answered < need {
		return fmt.Errorf("%w: %d of %d nodes have answered, of %d that it needs: %w", core.ErrUnavailable, answered, len(l.nodes), need, why)
	}
	if greatest == 0 {
		return nil
	}
	for i, e := range to {
		if err := e.Raise(ctx, carryKey, greatest); err != nil {
			return fmt.Errorf("new node %d: %w", i+1, err)
		}
	}
	return nil
}
