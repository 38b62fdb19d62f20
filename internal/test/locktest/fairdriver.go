package locktest

import (
	"math/rand/v2"
	"sync"
	"time"
)

var fairDriven = []scenario{
	{"the survivors of processes that are killed at random keep their order", killedAtRandom, fair | realTime | shares},
}

// A driver has the processes of a scenario queue for one key over and over.
type driver struct {
	line
	wg sync.WaitGroup

	mu     sync.Mutex // guards what is below, and what the processes are told
	stop   bool
	tokens map[string]int64 // by the names of the calls that were granted
}

const driverLease = 900 * time.Millisecond

// killedAtRandom looks at the queue all the time: of two who were seen in it the one in front has to be
// granted first, if both are.
func killedAtRandom(e *env) {
	const kills, grants = 2, 80 // between two kills
	d := &driver{line: line{e: e, key: e.key("item")}, tokens: make(map[string]int64)}
	processes := []*process{d.start(), d.start(), d.start()}
	seen := make(map[[2]string]bool) // who was in front of whom
	for killed, next := 0, grants; killed < kills; {
		d.look(seen)
		if d.granted() < next {
			continue
		}
		i := rand.IntN(len(processes))
		d.mu.Lock() // it is told nothing meanwhile
		processes[i].kill()
		d.mu.Unlock()
		processes[i] = d.start()
		killed, next = killed+1, d.granted()+grants
	}
	for enough := d.granted() + grants; d.granted() < enough; {
		d.look(seen)
	}
	d.mu.Lock()
	d.stop = true
	d.mu.Unlock()
	d.wg.Wait()
	compared := 0
	for pair := range seen {
		front, back := d.tokens[pair[0]], d.tokens[pair[1]]
		if front == 0 || back == 0 {
			continue
		}
		compared++
		if front > back {
			e.t.Errorf("%s was in front of %s, and was granted the lock after it", pair[0], pair[1])
		}
	}
	e.tb.Logf("%d grants, %d of %d pairs in the queue compared", len(d.tokens), compared, len(seen))
	if compared < 5*grants {
		e.t.Errorf("only %d pairs were seen in the queue", compared)
	}
	e.reaped(d.key)
}

// look notes who is in front of whom.
func (d *driver) look(seen map[[2]string]bool) {
	names := d.e.queue(d.key)
	for i, front := range names {
		for _, back := range names[i+1:] {
			seen[[2]string{front, back}] = true
		}
	}
	d.e.pass(time.Millisecond)
}

func (d *driver) granted() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.tokens)
}

// start starts a process with several calls under way.
func (d *driver) start() *process {
	p := d.e.queuer()
	for range 6 {
		d.wg.Go(func() {
			for d.round(p) {
			}
		})
	}
	return p
}

// round is one call. It returns false if there should be no more.
func (d *driver) round(p *process) bool {
	d.mu.Lock()
	if d.stop || p.ended() {
		d.mu.Unlock()
		return false
	}
	name := d.newName()
	c := p.ask(fairOrder{order: order{Key: d.key, Lease: driverLease}, Name: name})
	d.mu.Unlock()
	r, ok := c.comes(granted)
	if !ok {
		return false
	}
	d.mu.Lock()
	d.tokens[name] = r.Token
	p.child.Order(order{Do: "unlock", Call: c.n})
	d.mu.Unlock()
	_, ok = c.comes(done)
	return ok
}

// ended reports whether the process has.
func (p *process) ended() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// comes waits for an event of the call, and returns false if the process has ended before.
func (c *remote) comes(event string) (r report, ok bool) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		c.p.mu.Lock()
		r, ok = c.said[event]
		news, trouble := c.p.news, c.said[failed]
		c.p.mu.Unlock()
		switch {
		case ok:
			return r, true
		case trouble.Event != "":
			c.p.e.t.Errorf("the call of the other process: %s", trouble.Err)
			return r, false
		}
		select {
		case <-news:
		case <-c.p.over:
			return r, false
		case <-limit.C:
			c.p.e.t.Errorf("the call of the other process is not %s after %v", event, patience)
			return r, false
		}
	}
}
