package deadlock_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/lockmw/go/internal/deadlock"
	"github.com/lockmw/go/internal/test/race"
)

// A rule can be switched off, to see what breaks.
type rule int

const (
	twice        rule = 1 << iota // two collections are made, and only their common part counts
	singleUse                     // ids of waits and holds are used once
	holdsBlock                    // a wait blocks the holds of its context, not of its owner
	endsCount                     // a wait that ends by itself continues
	ticketsLast                   // a ticket is in the way only if its process reports that it lasts
	phases                        // a reader waits for a writer that waits for readers
	order                         // permits are given in strict order
	weights                       // a permit has a weight
	freesAnother                  // the end of the victim lets another wait continue
)

// A collector makes a Graph of what it sees of the world, one fact after the other.
type collector struct {
	w     *world
	off   rule
	pause func() // between two facts
}

func (c *collector) keeps(r rule) bool { return c.off&r == 0 }

func (c *collector) waitID(q *wait) string {
	if !c.keeps(singleUse) {
		return fmt.Sprint("thread", q.of.name, q.key.name)
	}
	return q.id
}

func (c *collector) lease(h *hold) string {
	if !c.keeps(singleUse) {
		return fmt.Sprint("thread", h.of.name, h.key.name)
	}
	return h.id
}

func (c *collector) ends(q *wait) bool {
	return c.keeps(endsCount) && q.until != 0 && q.until <= c.w.now+soon
}

// blocks reports whether q blocks h.
func (c *collector) blocks(q *wait, h *hold) bool {
	if !c.keeps(holdsBlock) {
		return q.of.owner == h.of.owner
	}
	return slices.Contains(q.of.chain(), h)
}

// collect follows the holds and tickets in the way of waits.
func (c *collector) collect(roots map[string]bool) *deadlock.Graph {
	g := deadlock.NewGraph()
	var todo []*wait
	for _, t := range c.w.threads {
		if t.wait != nil && len(t.chain()) > 0 && (roots == nil || roots[c.waitID(t.wait)]) {
			todo = append(todo, t.wait)
		}
	}
	for len(todo) > 0 {
		q := todo[0]
		todo = todo[1:]
		if g.Waits[c.waitID(q)] != nil || q.of.wait != q {
			continue
		}
		wait := c.see(q)
		g.Waits[wait.ID] = wait
		holds := slices.Clone(q.key.holds)
		c.pause()
		for _, h := range holds {
			todo = append(todo, c.ask(g, h)...)
			c.pause()
		}
		for _, ticket := range wait.View.Tickets {
			c.confirm(g, ticket.ID)
			c.pause()
		}
	}
	return g
}

// see reads the key that q waits for.
func (c *collector) see(q *wait) *deadlock.Wait {
	chain := q.of.chain()
	wait := &deadlock.Wait{
		ID: c.waitID(q), Key: q.key.name, Mode: q.mode(), Ticket: q.ticket, View: &deadlock.View{}, Ends: c.ends(q),
		Detects: q.detects, Owner: q.of.owner,
	}
	if len(chain) > 0 {
		wait.Since = int64(len(chain[len(chain)-1].id))
	}
	for _, h := range q.key.holds {
		holder := deadlock.Holder{Lease: c.lease(h), Reads: h.reads, Weight: h.weight}
		if !c.keeps(weights) {
			holder.Weight = min(holder.Weight, 1)
		}
		wait.View.Holders = append(wait.View.Holders, holder)
	}
	for _, other := range q.key.queue {
		if other.reads {
			continue
		}
		ticket := deadlock.Ticket{ID: other.ticket, Weight: other.weight, Permits: q.key.permits}
		if !c.keeps(weights) {
			ticket.Weight = min(ticket.Weight, 1)
		}
		wait.View.Tickets = append(wait.View.Tickets, ticket)
	}
	return wait
}

// ask asks which waits block a hold.
func (c *collector) ask(g *deadlock.Graph, h *hold) (waits []*wait) {
	answer := &deadlock.Hold{}
	if slices.Contains(h.of.holds, h) {
		for _, t := range c.w.threads {
			if q := t.wait; q != nil && c.blocks(q, h) {
				answer.Waits = append(answer.Waits, c.waitID(q))
				waits = append(waits, q)
			}
		}
	}
	g.Holds[c.lease(h)] = answer
	return waits
}

func (c *collector) confirm(g *deadlock.Graph, ticket string) {
	for _, k := range c.w.keys {
		for _, q := range k.queue {
			if q.ticket == ticket && (!c.keeps(ticketsLast) || q.until == 0 || q.until > c.w.now+soon) {
				g.Lasting[ticket] = true
			}
		}
	}
	if !c.keeps(ticketsLast) {
		g.Lasting[ticket] = true
	}
}

// relax applies a rule about queues that is switched off.
func (c *collector) relax(g *deadlock.Graph) {
	for _, w := range g.Waits {
		if !c.keeps(phases) && w.View != nil {
			w.View.Admits = true
		}
		if !c.keeps(order) {
			w.View.Tickets = slices.DeleteFunc(w.View.Tickets, func(t deadlock.Ticket) bool { return t.ID != w.Ticket && t.Weight > 0 })
		}
	}
}

// A verdict is the result for worlds with one rule switched off, or none.
type verdict struct {
	falsely, missed, found int
	ends                   int // of victims
	left                   int // deadlocked although they are to be freed
}

// judge plays worlds, examines them while they run, and compares the findings with the truth. It ends early once enough is true
// of the verdict.
func judge(off rule, worlds int, enough func(v verdict) bool) (v verdict) {
	for seed := range worlds {
		if enough(v) {
			break
		}
		r := rand.New(rand.NewPCG(uint64(seed), 20))
		w := newWorld(r)
		c := &collector{w: w, off: off, pause: func() {}}
		for range 10 + r.IntN(150) {
			w.step()
		}
		c.pause = func() {
			for range r.IntN(3) {
				w.step()
			}
		}
		first := c.collect(nil)
		middle := make(map[string]bool)
		for id := range w.copy().frozen() {
			middle[c.waitID(w.find(id))] = true
		}
		g := first
		if c.keeps(twice) {
			g = deadlock.Intersect(first, c.collect(nil))
		}
		c.relax(g)
		for id := range g.Deadlocked() {
			if !middle[id] {
				v.falsely++
			}
		}
		for range 300 { // by now a deadlock, if there is to be one
			w.step()
		}
		c.pause = func() {}
		truth := w.copy().frozen()
		g = c.collect(nil)
		c.relax(g)
		deadlocked := g.Deadlocked()
		if c.keeps(singleUse) && !maps.Equal(deadlocked, truth) {
			for id := range truth {
				if !deadlocked[id] {
					v.missed++
				}
			}
			for id := range deadlocked {
				if !truth[id] {
					v.falsely++
				}
			}
		}
		v.found += len(deadlocked)
		c.end(truth, &v)
	}
	return v
}

// end ends the waits of victims until no wait is deadlocked.
func (c *collector) end(truth map[string]bool, v *verdict) {
	if c.off&^freesAnother != 0 {
		return
	}
	for len(truth) > 0 {
		g := c.collect(nil)
		deadlocked := g.Deadlocked()
		victims := g.Victims(deadlocked)
		if !c.keeps(freesAnother) && len(victims) > 0 {
			victims = []*deadlock.Wait{youngest(g, deadlocked)}
		}
		if len(victims) == 0 {
			if allDetect(g, deadlocked) {
				v.left++
			}
			return
		}
		for _, t := range c.w.threads {
			if t.wait != nil && t.wait.id == victims[0].ID {
				v.ends++
				c.w.giveUp(t)
				for len(t.holds) > 0 {
					c.w.release(t)
				}
				t.over = true
			}
		}
		truth = c.w.copy().frozen()
	}
}

func allDetect(g *deadlock.Graph, deadlocked map[string]bool) bool {
	for id := range deadlocked {
		if !g.Waits[id].Detects {
			return false
		}
	}
	return true
}

func youngest(g *deadlock.Graph, deadlocked map[string]bool) *deadlock.Wait {
	var found *deadlock.Wait
	for id := range deadlocked {
		if w := g.Waits[id]; found == nil || w.Since > found.Since || w.Since == found.Since && w.ID > found.ID {
			found = w
		}
	}
	return found
}

const worlds = 1500

func never(verdict) bool { return false }

// withAllRules is the verdict of the unchanged detector.
var withAllRules = sync.OnceValue(func() verdict { return judge(0, worlds, never) })

func TestReportedWaitsAreDeadlockedAndDeadlockedWaitsAreReported(t *testing.T) {
	race.FindsNothing(t)
	v := withAllRules()
	if v.falsely != 0 || v.missed != 0 || v.left != 0 || v.found < worlds/2 || v.ends < worlds/4 {
		t.Errorf("%+v", v)
	}
	t.Logf("%+v", v)
}

func TestEachRuleIsNeeded(t *testing.T) {
	race.FindsNothing(t)
	without := func(name string, off rule, breaks func(v verdict) bool) {
		t.Run(name, func(t *testing.T) {
			v := judge(off, worlds, breaks)
			if !breaks(v) {
				t.Errorf("without it nothing breaks: %+v", v)
			}
			t.Logf("%+v", v)
		})
	}
	falsely := func(v verdict) bool { return v.falsely > 0 }
	missed := func(v verdict) bool { return v.missed > 0 }
	without("twice", twice, falsely)
	without("singleUse", singleUse, falsely)
	without("holdsBlock", holdsBlock, falsely)
	without("endsCount", endsCount, falsely)
	without("ticketsLast", ticketsLast, falsely)
	without("phases", phases, missed)
	without("order", order, missed)
	without("weights", weights, func(v verdict) bool { return v.falsely+v.missed > 0 })
	enough := withAllRules().ends
	without("freesAnother", freesAnother, func(v verdict) bool { return v.ends > enough })
}
