package asynqmw

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/parked"
)

const (
	// lookEvery is about how often the one server whose turn it is checks for free locks.
	lookEvery = 500 * time.Millisecond
	// askEvery is about how often any other server asks whether it is its turn, and reads which locks have lists. If the server
	// with the turn dies, another one takes over within askEvery plus parked.TurnTTL.
	askEvery = 1500 * time.Millisecond
	// lookFor is how long a server continues to ask after its last task, if there are no lists.
	lookFor = time.Minute
	// heldEvery is how often a task is woken to wait for a lock that others hold all the time. Each time costs about 150 commands.
	heldEvery = 6 * time.Second
)

// A lookState is the state of a server's checks of the lists of a queue.
type lookState struct {
	came   time.Time     // when the last task came
	parked time.Time     // when a task was last put on a list
	lists  bool          // there are lists
	first  chan struct{} // receives when the first list appears
	held   time.Time     // when a task was last woken although its lock was held
}

// enter is called for every attempt of a task. It makes sure that the lists of the queue are checked: a request may release a lock
// without waking a task, and the process that held the lock may have died.
func (p *parker) enter(queue string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.looks[queue]
	if l == nil {
		l = &lookState{first: make(chan struct{}, 1)}
		p.looks[queue] = l
		go p.look(queue, l)
	}
	l.came = time.Now()
}

// listed is called after a task of this server was put on a list.
func (p *parker) listed(queue string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.looks[queue]; l != nil {
		l.parked = time.Now()
		l.set(true)
	}
}

// set records whether there are lists.
func (l *lookState) set(lists bool) {
	if lists && !l.lists {
		select {
		case l.first <- struct{}{}:
		default:
		}
	}
	l.lists = lists
}

// hasLists reports whether tasks are parked in a queue of this server.
func (p *parker) hasLists() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.looks {
		if l.lists {
			return true
		}
	}
	return false
}

// look checks the lists of a queue until no task has come for a while and none is parked, until the locks are closed, or until
// tasks cannot be parked.
func (p *parker) look(queue string, l *lookState) {
	timer := time.NewTimer(rand.N(lookEvery))
	defer timer.Stop()
	turn := false
	for again := true; again; {
		pause, err := lookEvery, error(nil)
		select {
		case <-p.locks.Closed:
		case <-l.first:
		case <-timer.C:
			if turn, err = p.lookOnce(queue, l); !turn {
				pause = askEvery
			}
		}
		again = p.looksAgain(queue, l, err)
		timer.Reset(pause*3/4 + rand.N(pause/2))
	}
	if turn {
		_ = p.store.EndTurn(context.Background(), queue, p.id) // if this fails, the turn expires
	}
}

// looksAgain reports whether to check again. If not, the next task starts a new look.
func (p *parker) looksAgain(queue string, l *lookState, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed() || p.state.isOff() || errors.Is(err, redis.ErrClosed) || !l.lists && time.Since(l.came) > lookFor {
		delete(p.looks, queue)
		return false
	}
	return true
}

// lookOnce reads which locks have lists. If it is the turn of this server, lookOnce wakes a task for each free lock. Now and then it
// also wakes a task for one lock that is held: while other callers queue for a lock, no check ever finds it free.
func (p *parker) lookOnce(queue string, l *lookState) (turn bool, err error) {
	ctx, start := context.Background(), time.Now()
	locks, turn, err := p.store.Look(ctx, queue, p.id)
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	l.set(len(locks) > 0)
	l.set(l.lists || l.parked.After(start))
	p.mu.Unlock()
	p.prune(queue, locks, len(locks) < parked.MostLists)
	for _, lock := range locks {
		p.track(parked.ListID{Queue: queue, Lock: lock})
	}
	if !turn {
		return false, nil
	}
	free, err := parked.Free(ctx, p.locks.Redis, locks)
	for _, lock := range free {
		p.wake(parked.ListID{Queue: queue, Lock: lock}, parked.Anyway)
	}
	if err != nil { // another server may reach the other locks
		_ = p.store.EndTurn(ctx, queue, p.id)
		return false, err
	}
	due := heldEvery
	if !p.server.hasRoom() { // the task may have to leave its worker immediately, unless another server takes it
		due *= 2
	}
	if lock := locks[rand.N(len(locks))]; !slices.Contains(free, lock) && time.Since(l.held) > due {
		l.held = time.Now()
		p.wake(parked.ListID{Queue: queue, Lock: lock}, parked.Held)
	}
	return true, nil
}
