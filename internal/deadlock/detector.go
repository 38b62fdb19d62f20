package deadlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/pause"
)

const (
	// roundGap separates the starts of rounds, and maxInRound limits the waits that are checked in one.
	roundGap   = 100 * time.Millisecond
	maxInRound = 256
	// retryAfter is the time until a wait is checked once more if something changed during the check.
	retryAfter = 250 * time.Millisecond
	// patience is how long others may take to answer, and how long reading keys may take.
	patience = 250 * time.Millisecond
	// maxAnswers limits the questions that are answered at the same time. A process that receives no answer assumes that the
	// waits continue.
	maxAnswers = 8
	// maxMessage is the length of the longest message that is read.
	maxMessage = 4 << 20
	// maxHops limits the number of processes that a check asks one after the other.
	maxHops = 64
)

// Transport is a Detector's connection to other processes.
type Transport interface {
	Site
	// Send sends a message to an inbox. It may get lost.
	Send(ctx context.Context, inbox, text string)
	// Secret reads the secret of all clients that may read and write the locks, and creates it if there is none. It returns "" if
	// it cannot be read.
	Secret(ctx context.Context) string
	// Context ends with the Client.
	Context() context.Context
}

// A Detector finds deadlocks among the waits of a Client, and answers the detectors of other processes.
type Detector struct {
	waits *Registry
	t     Transport
	seals seals

	wg        sync.WaitGroup
	mu        sync.Mutex
	due       []*NestedWait
	running   bool
	stopped   bool
	answering int
	last      uint64
	asked     map[uint64]chan *Graph // receive the answers to the questions of the round; by number
}

// NewDetector returns a Detector. It starts no goroutine yet.
func NewDetector(waits *Registry, t Transport) *Detector {
	return &Detector{waits: waits, t: t, seals: seals{t: t}, asked: make(map[uint64]chan *Graph)}
}

// PrefetchSecret reads in good time the secret by which others seal their questions.
func (d *Detector) PrefetchSecret() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped && d.seals.mayRead(secretAge) {
		d.wg.Go(func() { d.within(func(ctx context.Context) { d.seals.current(ctx, 0) }) })
	}
}

// Check schedules a check of a wait.
func (d *Detector) Check(n *NestedWait) {
	if n.due.Swap(true) {
		return // already scheduled: many processes may request it
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due = append(d.due, n)
	if !d.running && !d.stopped {
		d.running = true
		d.wg.Go(d.run)
	}
}

// Stop waits for the goroutines of the Detector, which end with the Context.
func (d *Detector) Stop() {
	d.mu.Lock()
	d.stopped = true
	d.mu.Unlock()
	d.wg.Wait()
}

// run checks all waits that are due.
func (d *Detector) run() {
	for {
		d.mu.Lock()
		n := min(len(d.due), maxInRound)
		round := d.due[:n:n]
		d.due = d.due[n:]
		d.running = n > 0
		d.mu.Unlock()
		if n == 0 {
			return
		}
		for _, n := range round {
			n.due.Store(false)
		}
		begun := time.Now()
		d.round(round)
		pause.For(d.t.Context(), max(roundGap-time.Since(begun), 0))
	}
}

// round checks some waits. If it finds a deadlock, it collects the graph a second time, and only the parts that are in both
// graphs count.
func (d *Detector) round(roots []*NestedWait) {
	first, silent := d.collect(roots)
	deadlocked := first.Deadlocked()
	if len(deadlocked) > 0 {
		still := slices.DeleteFunc(slices.Clone(roots), func(n *NestedWait) bool { return !deadlocked[n.id] })
		second, _ := d.collect(still)
		d.end(Intersect(first, second))
		silent = true // a wait that is not ended may have just changed
	}
	for _, n := range roots {
		if silent && !n.retried.Swap(true) {
			n.Wake(retryAfter)
		} else {
			n.retried.Store(false)
			n.Wake(CheckInterval)
		}
	}
}

// end ends the victims of this process, and makes other processes check theirs.
func (d *Detector) end(g *Graph) {
	for _, v := range d.waits.endVictims(g) {
		if v.Inbox != "" {
			d.send(v.Inbox, &message{Check: v.ID})
		}
	}
}

// endVictims ends the victims of this process, and returns the others.
func (r *Registry) endVictims(g *Graph) (others []*Wait) {
	deadlocked := g.Deadlocked()
	for _, v := range g.Victims(deadlocked) {
		n := r.find(v.ID)
		if n == nil {
			others = append(others, v)
			continue
		}
		select {
		case n.Found <- &core.DeadlockError{Cycle: steps(g.Cycle(v.ID, deadlocked))}:
		default: // it is about to end
		}
	}
	return others
}

func steps(cycle []*Wait) (steps []core.DeadlockStep) {
	before := cycle[len(cycle)-1]
	for _, w := range cycle {
		s := core.DeadlockStep{
			Process: w.Process, Owner: w.Owner, Label: w.Label, Wants: w.Key, Waited: time.Duration(w.Waited) * time.Millisecond,
		}
		for _, h := range w.Held {
			if before.View.isHeldBy(h.Lease) {
				s.Has, s.HasLabel, s.Held = h.Key, h.Label, time.Duration(h.For)*time.Millisecond
			}
		}
		steps = append(steps, s)
		before = w
	}
	return steps
}

func (v *View) isHeldBy(lease string) bool {
	return slices.ContainsFunc(v.Holders, func(h Holder) bool { return h.Lease == lease })
}

// collect collects the knowledge of waits and of the holds and tickets in their way. silent reports whether a process has not
// answered.
func (d *Detector) collect(roots []*NestedWait) (g *Graph, silent bool) {
	if len(roots) == 0 {
		return NewGraph(), false
	}
	c := newCollection(d.waits, d.t)
	d.within(func(ctx context.Context) { c.add(ctx, roots) })
	for hop := 0; hop < maxHops && len(c.asks) > 0 && d.t.Context().Err() == nil; hop++ {
		asks := c.asks
		c.asks = make(map[string]*ask)
		answers := d.askAll(roots[0].inbox(), asks)
		d.within(func(ctx context.Context) {
			for inbox, told := range answers {
				c.merge(ctx, told, inbox)
			}
		})
		silent = silent || len(answers) < len(asks)
	}
	return c.graph, silent
}

// within calls f with a context that limits how long others may take to answer.
func (d *Detector) within(f func(context.Context)) {
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	f(ctx)
}

// askAll asks several processes together, and returns the answers that arrived in time. The processes answer to the inbox from.
func (d *Detector) askAll(from string, asks map[string]*ask) map[string]*Graph {
	answers := make(map[string]*Graph)
	d.within(func(ctx context.Context) {
		waiting := make(map[string]chan *Graph)
		defer d.forget()
		for inbox, a := range asks {
			number, answer := d.expect()
			waiting[inbox] = answer
			d.post(ctx, inbox, &message{Number: number, From: from, Ask: a})
		}
		for inbox, answer := range waiting {
			select {
			case told := <-answer:
				answers[inbox] = told
			case <-ctx.Done():
			}
		}
	})
	return answers
}

func (d *Detector) expect() (number uint64, answer chan *Graph) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	answer = make(chan *Graph, 1)
	d.asked[d.last] = answer
	return d.last, answer
}

// forget forgets the questions that were not answered. There is one round at a time.
func (d *Detector) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.asked)
}

func (d *Detector) send(inbox string, m *message) {
	d.within(func(ctx context.Context) { d.post(ctx, inbox, m) })
}

// post sends a sealed message. Without the secret it sends nothing, because a message without a seal is ignored.
func (d *Detector) post(ctx context.Context, inbox string, m *message) {
	if secret := d.seals.current(ctx, secretAge); secret != "" {
		d.t.Send(ctx, inbox, Seal(secret, inbox, m.String()))
	}
}

// Receive handles a message of another detector to an inbox. It does not block.
func (d *Detector) Receive(inbox, text string) {
	if len(text) > maxMessage {
		return
	}
	body, ok := d.seals.open(inbox, text)
	if ok {
		d.receive(body)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped && d.seals.mayRead(secretGap) {
		d.wg.Go(func() {
			d.within(func(ctx context.Context) {
				if body, ok := unseal(d.seals.current(ctx, 0), inbox, text); ok {
					d.receive(body)
				}
			})
		})
	}
}

// receive handles a message that another detector has sealed.
func (d *Detector) receive(body string) {
	m, ok := parse(body)
	switch {
	case !ok:
	case m.Answer != nil:
		d.mu.Lock()
		answer := d.asked[m.Number]
		delete(d.asked, m.Number)
		d.mu.Unlock()
		if answer != nil {
			answer <- m.Answer
		}
	case m.Ask != nil && m.From != "":
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.answering < maxAnswers && !d.stopped && d.seals.isNew(&m) {
			d.answering++
			d.wg.Go(func() { d.answer(&m) })
		}
	case m.Check != "":
		if n := d.waits.find(m.Check); n != nil && n.Request.Detect > 0 && n.Site == Site(d.t) {
			d.Check(n)
		}
	}
}

// answer answers a question.
func (d *Detector) answer(m *message) {
	c := newCollection(d.waits, d.t)
	d.within(func(ctx context.Context) { c.answer(ctx, m.Ask) })
	d.send(m.From, &message{Number: m.Number, Answer: c.graph})
	d.mu.Lock()
	d.answering--
	d.mu.Unlock()
}

// CheckLocally checks for deadlocks among locks that are within this process only.
func (n *NestedWait) CheckLocally() {
	collect := func() *Graph {
		c := newCollection(n.Waits, n.Site)
		c.local = true
		c.add(context.Background(), []*NestedWait{n})
		return c.graph
	}
	first := collect()
	if !first.Deadlocked()[n.id] {
		return
	}
	n.Waits.endVictims(Intersect(first, collect()))
}
