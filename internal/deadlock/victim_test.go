package deadlock_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/lockmw/go/internal/deadlock"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/suite"
)

// Each process checks from waits of its own. They must not end two waits for one deadlock.
func TestTheVictimsAreTheSameFromEveryWait(t *testing.T) {
	race.FindsNothing(t)
	checks, victims, seeds := 0, 0, worlds
	if suite.Full() {
		seeds = 3 * worlds
	}
	for seed := range seeds {
		w := newWorld(rand.New(rand.NewPCG(uint64(seed), 21)))
		for range 400 {
			w.step()
		}
		c := &collector{w: w, pause: func() {}}
		whole := c.collect(nil)
		chosen := make(map[string]bool)
		for _, v := range whole.Victims(whole.Deadlocked()) {
			chosen[v.ID] = true
		}
		for id := range whole.Deadlocked() {
			g := c.collect(map[string]bool{id: true})
			checks++
			for _, v := range g.Victims(g.Deadlocked()) {
				victims++
				if !chosen[v.ID] {
					t.Errorf("seed %d: a check from %s ends %s, and a check from all ends %v", seed, id, v.ID, chosen)
				}
			}
		}
	}
	if victims < seeds/3 {
		t.Errorf("%d checks found %d victims", checks, victims)
	}
}

// Many waits block one hold, and none of the waits in their way detects deadlocks: all of them are to end.
func TestManyVictimsAreFoundBitByBit(t *testing.T) {
	const n = 300
	g := deadlock.NewGraph()
	outer := &deadlock.Hold{}
	g.Holds["outer"], g.Holds["busy"] = outer, &deadlock.Hold{Waits: []string{"holder"}}
	g.Waits["holder"] = &deadlock.Wait{ID: "holder", View: &deadlock.View{Holders: []deadlock.Holder{{Lease: "outer"}}}}
	for i := range n {
		id := fmt.Sprint(i)
		outer.Waits = append(outer.Waits, id)
		g.Waits[id] = &deadlock.Wait{ID: id, Detects: true, View: &deadlock.View{Holders: []deadlock.Holder{{Lease: "busy"}}}}
	}
	if got := len(g.Victims(g.Deadlocked())); got < 2 || got > 100 {
		t.Errorf("%d waits are to end together", got)
	}
}
