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
	// lookEvery is about how often locks are looked at, by the one server whose turn it is.
	lookEvery = 500 * time.Millisecond
	// askEvery is about how often another server asks whether it is its turn, and reads which lists there are. A server that died
	// is followed after askEvery and parked.TurnLasts at most.
	askEvery = 1500 * time.Millisecond
	// lookFor is how long a server continues to ask after its last task.
	lookFor = time.Minute
	// heldEvery is how often a task is woken to wait for a lock that others hold all the time. It costs about 150 commands.
	heldEvery = 6 * time.Second
)

// A looking is how a server looks at the lists of a queue.
type looking struct {
	came   time.Time     // when the last task came
	parked time.Time     // when the last one was on a list
	lists  bool          // there are lists
	first  chan struct{} // there is a list, and there was none
	held   time.Time     // when a task was last woken although its lock was held
}

// enter is called for every attempt of a task. It sees to it that the lists of the queue are looked at: a lock may be
// released by somebody who knows nothing of them, and the process that had it may have died.
func (p *parker) enter(queue string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.looks[queue]
	if l == nil {
		l = &looking{first: make(chan struct{}, 1)}
		p.looks[queue] = l
		go p.look(queue, l)
	}
	l.came = time.Now()
}

// listed is called when a task of this server is on a list.
func (p *parker) listed(queue string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.looks[queue]; l != nil {
		l.parked = time.Now()
		l.set(true)
	}
}

// set notes whether there are lists.
func (l *looking) set(lists bool) {
	if lists && !l.lists {
		select {
		case l.first <- struct{}{}:
		default:
		}
	}
	l.lists = lists
}

// hasLists reports whether tasks are parked in a queue that is looked at.
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

// look continues until no task has come for a while and nothing is parked, the locks are closed, or nothing can be
// parked.
func (p *parker) look(queue string, l *looking) {
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
		p.endTurn(queue)
	}
}

// looksAgain reports whether to look again. If not, the next task begins anew.
func (p *parker) looksAgain(queue string, l *looking, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed() || p.state.isOff() || errors.Is(err, redis.ErrClosed) || !l.lists && time.Since(l.came) > lookFor {
		delete(p.looks, queue)
		return false
	}
	return true
}

// lookOnce reads which lists there are. If it is the turn of this server, lookOnce wakes a task for each lock that is free. For one
// lock that is held, a task is woken as well if no worker of this server waits: while there is always somebody who waits, a lock is
// never seen to be free.
func (p *parker) lookOnce(queue string, l *looking) (turn bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), parked.AnswerIn)
	defer cancel()
	start := time.Now()
	locks, turn, err := p.store.Look(ctx, queue, p.id)
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	l.set(len(locks) > 0)
	l.set(l.lists || l.parked.After(start))
	p.mu.Unlock()
	for _, lock := range locks {
		p.know(parked.Want{Queue: queue, Lock: lock})
	}
	if !turn {
		return false, nil
	}
	free, err := parked.Free(ctx, p.locks.Redis, locks)
	if err != nil { // another server may reach the locks
		p.endTurn(queue)
		return false, err
	}
	for _, lock := range free {
		p.wake(parked.Want{Queue: queue, Lock: lock}, parked.Anyway)
	}
	if lock := locks[rand.N(len(locks))]; !slices.Contains(free, lock) && !p.server.stays() && time.Since(l.held) > heldEvery {
		l.held = time.Now()
		p.wake(parked.Want{Queue: queue, Lock: lock}, parked.Held)
	}
	return true, nil
}

// endTurn lets another server look. If this fails, the turn ends by itself.
func (p *parker) endTurn(queue string) {
	ctx, cancel := context.WithTimeout(context.Background(), parked.AnswerIn)
	defer cancel()
	_ = p.store.EndTurn(ctx, queue, p.id)
}
