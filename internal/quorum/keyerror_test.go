package quorum_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
)

// spoilers make a node refuse a key whatever its state, and no other key.
var spoilers = map[string]func(b *bubble, node int, key string){
	"no permission": func(b *bubble, node int, key string) { b.forbid(node, key) },
	"another type": func(b *bubble, node int, key string) {
		if err := b.nodes[node].Mini.Set("lockmw:{"+key+"}", "a string"); err != nil {
			b.Fatal(err)
		}
	},
}

// The nodes work: callers that wait for another key keep their places, whether or not they would wait for unreachable nodes.
func TestAnErrorAboutAKeyDisturbsNoWaitForAnotherKey(t *testing.T) {
	for name, spoil := range spoilers {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p, q := b.process().warm(), b.process().warm()
				held := p.lock("item")
				waits := []*calling{
					q.call("item", func(r *core.Request) { r.Leads = true }),
					q.call("item", func(r *core.Request) { r.FailOpen = true }),
					q.call("item"),
				}
				time.Sleep(100 * time.Millisecond)
				first := b.nodes[b.order("item")[0]].Mini
				before, _ := first.SortedSet("lockmw:{item}:queue")
				for i := range b.nodes {
					spoil(b, i, "other")
				}
				if c := q.try("other"); c.err == nil {
					b.Fatal("the other key is not refused")
				}
				time.Sleep(time.Second)
				for i, c := range waits {
					if c.returned() {
						b.Errorf("wait %d ended with %v", i, c.err)
					}
				}
				if after, _ := first.SortedSet("lockmw:{item}:queue"); len(before) != 1 || !equalKeys(before, after) {
					b.Errorf("the queue was %v and is %v", before, after)
				}
				b.release(held)
				synctest.Wait()
				if !waits[0].returned() || waits[0].err != nil {
					b.Fatalf("the first wait: returned %t, %v", waits[0].returned(), waits[0].err)
				}
				for _, c := range waits[1:] {
					c.stop()
					c.await()
				}
				b.release(waits[0])
			})
		})
	}
}

func equalKeys(a, b map[string]float64) bool {
	for k := range a {
		if _, ok := b[k]; !ok {
			return false
		}
	}
	return len(a) == len(b)
}

// A minority that refuses a key keeps no call for it from waiting in a queue, and the reason is not forgotten.
func TestCallsQueueAtTheFirstNodeThatDoesNotRefuseTheirKey(t *testing.T) {
	for name, spoil := range spoilers {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p, order := b.process().warm(), b.order("item")
				strangers := b.occupy("item", order[1:]...)
				spoil(b, order[0], "item")
				c := p.call("item")
				time.Sleep(time.Second)
				for range 20 {
					if at := b.queueing("item"); !slices.Equal(at, order[1:2]) {
						b.Fatalf("the call queues at nodes %v, want node %d", at, order[1])
					}
					time.Sleep(70 * time.Millisecond)
				}
				strangers[1].end()
				strangers[0].end()
				if !c.returned() || c.err != nil {
					b.Fatalf("the call does not get the lock immediately: returned %t, %v", c.returned(), c.err)
				}
				b.release(c)
			})
		})
	}
}

// One node refuses the key, and one is unreachable. The lock is not busy: a wait ends with the reasons of both nodes.
func TestAWaitSaysWhichNodesRefuseItsKey(t *testing.T) {
	for name, spoil := range spoilers {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p := b.process().warm()
				spoil(b, 0, "item")
				p.cut(1)
				c := p.call("item", func(r *core.Request) { r.Wait = 3 * time.Second })
				c.await()
				if !errors.Is(c.err, core.ErrUnavailable) {
					b.Fatalf("Acquire: %v, want ErrUnavailable", c.err)
				}
				b.says(c.err, "1 of 3 nodes", "node 1 (", "node 2 (")
			})
		})
	}
}
