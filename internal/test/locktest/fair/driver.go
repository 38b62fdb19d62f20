package fair

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/locktest/env"
)

var driven = []env.Scenario{
	env.Case("randomly killed processes do not change the order of the others", killedAtRandom, env.Fair|env.InRealTime|env.Shares),
}

// A driver makes processes queue for one key in a loop.
type driver struct {
	line
	wg sync.WaitGroup

	mu     sync.Mutex // guards the fields below and the orders to the processes
	stop   bool
	tokens map[string]int64 // by the name of the granted call
}

const driverLease = 900 * time.Millisecond

// killedAtRandom samples the queue continuously. Of two calls seen in the queue, the one in front must be granted first, if
// both are granted.
func killedAtRandom(e *env.Env) {
	const kills, grants = 2, 80 // between kills
	d := &driver{line: line{e: e, key: e.Key("item")}, tokens: make(map[string]int64)}
	processes := []*env.Process{d.start(), d.start(), d.start()}
	seen := make(map[[2]string]bool) // pairs of front and back
	for killed, next := 0, grants; killed < kills; {
		d.look(seen)
		if d.granted() < next {
			continue
		}
		i := rand.IntN(len(processes))
		d.mu.Lock() // no orders during the kill
		processes[i].Kill()
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
			e.T.Errorf("%s was in front of %s but was granted the lock later", pair[0], pair[1])
		}
	}
	e.TB.Logf("%d grants, %d of %d pairs in the queue compared", len(d.tokens), compared, len(seen))
	if compared < 5*grants {
		e.T.Errorf("only %d pairs were seen in the queue", compared)
	}
	e.Reaped(d.key)
}

// look records the order of the queue.
func (d *driver) look(seen map[[2]string]bool) {
	names := queue(d.e, d.key)
	for i, front := range names {
		for _, back := range names[i+1:] {
			seen[[2]string{front, back}] = true
		}
	}
	d.e.Pass(time.Millisecond)
}

func (d *driver) granted() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.tokens)
}

// start starts a process with six concurrent callers.
func (d *driver) start() *env.Process {
	p := queuer(d.e)
	for range 6 {
		d.wg.Go(func() {
			for d.round(p) {
			}
		})
	}
	return p
}

// round makes one call. It returns false if the caller should stop.
func (d *driver) round(p *env.Process) bool {
	d.mu.Lock()
	if d.stop || ended(p) {
		d.mu.Unlock()
		return false
	}
	name := d.newName()
	c := ask(p, order{Order: env.Order{Key: d.key, Lease: driverLease}, Name: name})
	d.mu.Unlock()
	r, ok := comes(c, judge.Granted)
	if !ok {
		return false
	}
	d.mu.Lock()
	d.tokens[name] = r.Token
	p.Child.Order(env.Order{Do: "unlock", Call: c.N})
	d.mu.Unlock()
	_, ok = comes(c, judge.Done)
	return ok
}

// ended reports whether the process has ended.
func ended(p *env.Process) bool {
	select {
	case <-p.Over:
		return true
	default:
		return false
	}
}

// comes waits for an event of the call. It returns false if the process ends first.
func comes(c *env.Remote, event string) (r judge.Report, ok bool) {
	limit := time.NewTimer(env.Patience)
	defer limit.Stop()
	for {
		c.P.Mu.Lock()
		r, ok = c.Reports[event]
		news, trouble := c.P.News, c.Reports[judge.Failed]
		c.P.Mu.Unlock()
		switch {
		case ok:
			return r, true
		case trouble.Event != "":
			c.P.E.T.Errorf("the other process: %s", trouble.Err)
			return r, false
		}
		select {
		case <-news:
		case <-c.P.Over:
			return r, false
		case <-limit.C:
			c.P.E.T.Errorf("the other process did not report %q within %v", event, env.Patience)
			return r, false
		}
	}
}
