package script_test

import (
	"testing"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/test/suite"
)

// In a slot that moves, a key that is missing belongs to the other node: a Cluster ends a script that asks for it, after
// whatever it has written. None of the scripts may let two in then.
func onMovingSlot(t *testing.T, test func(d *scripttest.Driver, move func())) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 2, 0)
	key := t.Name()
	d := scripttest.NewOnNode(t, c.Nodes[c.Owner("{"+key+"}")].NewClient(t), key)
	test(d, func() { c.BeginMove(d.Keys.Holder()) })
}

// All keys of the lock are there, so that the node takes the script.
func crowd(d *scripttest.Driver) {
	d.Write("w")
	d.Write("v")
	d.Read("r")
}

func TestADowngradeInASlotThatMovesKeepsWritersOut(t *testing.T) {
	onMovingSlot(t, func(d *scripttest.Driver, move func()) {
		crowd(d)
		move()
		if _, err := d.Send(&script.Downgrade{Keys: d.Keys, ID: scripttest.ID("w")}).Downgraded(); err != nil {
			t.Logf("cut off: %v", err)
		}
		if d.Redis.Exists(d.Context(), d.Keys.Holder()).Val() == 0 {
			t.Error("the holder is gone: the next writer gets the lock, while the one before reads")
		}
		if f := d.Redis.HGetAll(d.Context(), d.Keys.Holder()).Val(); f["mode"] != "read" {
			t.Errorf("the lock has %v", f)
		}
	})
}
