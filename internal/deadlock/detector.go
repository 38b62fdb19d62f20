package deadlock

import (
	"context"
	"sync"
	"time"

	"github.com/lockmw/go/internal/core"
)

const (
	// roundGap is between the beginnings of two rounds, and mostInRound how many waits are looked at in one.
	roundGap    = 100 * time.Millisecond
	mostInRound = 256
	// again is after what time a wait is looked at once more, if something had changed meanwhile.
	again = 250 * time.Millisecond
	// patience is how long others have for an answer, and to read keys.
	patience = 250 * time.Millisecond
	// mostAnswers is how many asks are answered at the same time. Who gets no answer takes the waits to go on.
	mostAnswers = 8
	// longest is how long a message may be that is read.
	longest = 4 << 20
	// mostHops is how many processes after one another a look asks.
	mostHops = 64
)

// Transport is how a Detector reaches others.
type Transport interface {
	Site
	// Send sends a message to an inbox. It may get lost.
	Send(ctx context.Context, inbox, text string)
	// Secret reads what only those know who may read and write the locks, and makes it if there is none; "": it cannot be read.
	Secret(ctx context.Context) string
	// Context ends with the Client.
	Context() context.Context
}

// A Detector looks for deadlocks for the waits of a Client, and answers the detectors of others.
type Detector struct {
	waits *Registry
	t     Transport
	seals seals

	wg        sync.WaitGroup
	mu        sync.Mutex
	due       []*Nested
	running   bool
	stopped   bool
	answering int
	last      uint64
	asked     map[uint64]chan *Graph // waits for answers
}

// NewDetector returns a Detector that does nothing yet.
func NewDetector(waits *Registry, t Transport) *Detector {
	return &Detector{waits: waits, t: t, seals: seals{t: t}, asked: make(map[uint64]chan *Graph)}
}

// Prepare has the secret read in good time, by which others seal their questions.
func (d *Detector) Prepare() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped && d.seals.mayRead(secretAge) {
		d.wg.Go(func() { d.within(func(ctx context.Context) { d.seals.current(ctx, 0) }) })
	}
}

// Look has a wait looked at soon.
func (d *Detector) Look(n *Nested) {
	if n.due.Swap(true) {
		return // it is going to be: many may ask for it
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

// run looks at all waits that are due.
func (d *Detector) run() {
	for {
		d.mu.Lock()
		n := min(len(d.due), mostInRound)
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
		rest := time.NewTimer(max(roundGap-time.Since(begun), 0))
		select {
		case <-rest.C:
		case <-d.t.Context().Done():
			rest.Stop()
		}
	}
}

// round looks at some waits. What it finds it collects twice: only what is in both counts.
func (d *Detector) round(roots []*Nested) {
	first, silent := d.collect(roots)
	stuck := first.Stuck()
	if len(stuck) > 0 {
		second, _ := d.collect(still(roots, stuck))
		both := Both(first, second)
		d.end(both, both.Stuck())
		silent = true // whatever is not ended may have changed just now
	}
	for _, n := range roots {
		if silent && !n.retried.Swap(true) {
			n.Wake(again)
		} else {
			n.retried.Store(false)
			n.Wake(Every)
		}
	}
}

// still returns the waits that are stuck.
func still(roots []*Nested, stuck map[string]bool) (list []*Nested) {
	for _, n := range roots {
		if stuck[n.id] {
			list = append(list, n)
		}
	}
	return list
}

// end ends waits of this process that are to end, and has other processes look at theirs.
func (d *Detector) end(g *Graph, stuck map[string]bool) {
	for _, v := range g.Victims(stuck) {
		if n := d.waits.find(v.ID); n != nil {
			n.found(g.Circle(v.ID, stuck))
		} else if v.Inbox != "" {
			d.send(v.Inbox, &message{Look: v.ID})
		}
	}
}

// found has the wait end.
func (n *Nested) found(circle []*Wait) {
	select {
	case n.Found <- &core.DeadlockError{Circle: steps(circle)}:
	default: // it is about to
	}
}

func steps(circle []*Wait) (steps []core.DeadlockStep) {
	before := circle[len(circle)-1]
	for _, w := range circle {
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
	for _, h := range v.Holders {
		if h.Lease == lease {
			return true
		}
	}
	return false
}

// collect collects what is known of waits and of what is in their way. silent reports whether somebody has not answered.
func (d *Detector) collect(roots []*Nested) (g *Graph, silent bool) {
	if len(roots) == 0 {
		return NewGraph(), false
	}
	c := newCollection(d.waits, d.t)
	d.within(func(ctx context.Context) { c.add(ctx, roots) })
	for hop := 0; hop < mostHops && len(c.asks) > 0 && d.t.Context().Err() == nil; hop++ {
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

// within calls f with a context that ends when others have to have answered.
func (d *Detector) within(f func(context.Context)) {
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	f(ctx)
}

// askAll asks several processes at once, and returns the answers that came in time.
// They answer to the inbox from.
func (d *Detector) askAll(from string, asks map[string]*ask) map[string]*Graph {
	answers := make(map[string]*Graph)
	d.within(func(ctx context.Context) {
		waiting := make(map[string]chan *Graph)
		var numbers []uint64
		defer func() { d.forget(numbers) }()
		for inbox, a := range asks {
			number, answer := d.expect()
			numbers, waiting[inbox] = append(numbers, number), answer
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

func (d *Detector) forget(numbers []uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, number := range numbers {
		delete(d.asked, number)
	}
}

func (d *Detector) send(inbox string, m *message) {
	d.within(func(ctx context.Context) { d.post(ctx, inbox, m) })
}

// post sends a sealed message. Without the secret nobody would read it.
func (d *Detector) post(ctx context.Context, inbox string, m *message) {
	if secret := d.seals.current(ctx, secretAge); secret != "" {
		d.t.Send(ctx, inbox, Seal(secret, inbox, m.String()))
	}
}

// Receive deals with a message of another detector to an inbox. It does not block.
func (d *Detector) Receive(inbox, text string) {
	if len(text) > longest {
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

// receive deals with a message that another detector has sealed.
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
		if d.answering < mostAnswers && !d.stopped && d.seals.isNew(&m) {
			d.answering++
			d.wg.Go(func() { d.answer(&m) })
		}
	case m.Look != "":
		if n := d.waits.find(m.Look); n != nil && n.Request.Detect > 0 && n.Site == Site(d.t) {
			d.Look(n)
		}
	}
}

// answer answers an ask.
func (d *Detector) answer(m *message) {
	c := newCollection(d.waits, d.t)
	d.within(func(ctx context.Context) { c.answer(ctx, m.Ask) })
	d.send(m.From, &message{Number: m.Number, Answer: c.graph})
	d.mu.Lock()
	d.answering--
	d.mu.Unlock()
}

// LookWithin looks for deadlocks of locks that are within this process only.
func (n *Nested) LookWithin() {
	collect := func() *Graph {
		c := newCollection(n.Waits, n.Site)
		c.local = true
		c.add(context.Background(), []*Nested{n})
		return c.graph
	}
	first := collect()
	if !first.Stuck()[n.id] {
		return
	}
	both := Both(first, collect())
	stuck := both.Stuck()
	for _, v := range both.Victims(stuck) {
		if other := n.Waits.find(v.ID); other != nil {
			other.found(both.Circle(v.ID, stuck))
		}
	}
}
