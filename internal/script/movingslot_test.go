package script_test

import (
	"fmt"
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/test/suite"
)

// While a slot moves, a missing key belongs to the other node: a Cluster ends a script that asks for it, whatever the script
// has written before.
func TestNoScriptLetsTwoInWhileASlotMoves(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 2, 0)
	for i := range scenes {
		sc := &scenes[i]
		if len(sc.holds) == 0 || len(sc.waits) < 3 {
			continue // scripts are refused from the beginning, because a key of theirs is missing
		}
		for k, turn := range turnsOf(sc) {
			t.Run(sc.name+", "+turn.name, func(t *testing.T) {
				key := fmt.Sprintf("%d:%d", i, k)
				d := scripttest.NewOnNode(t, c.Nodes[c.Owner("{"+key+"}")].NewClient(t), key)
				sc.set(d)
				op := turn.run(d)
				harmless(d, sc, &turn, func() {
					c.BeginMove(d.Keys.Holder())
					if err := d.Send(op).Err; err != nil {
						t.Logf("refused, or ended: %v", err)
					}
				})
			})
		}
	}
}
