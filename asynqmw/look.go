package asynqmw

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/parked"
)

const (
	// lookEvery is about how often locks are looked at.
	lookEvery = 500 * time.Millisecond
	// lookFor is how long a server goes on with that after its last task.
	lookFor = time.Minute
)

// enter is called for every attempt of a task. It sees to it that the lists of the queue are looked at: a lock may be
// released by somebody who knows nothing of them, and the process that had it may have died.
func (p *parker) enter(queue string) {
	now := time.Now()
	p.mu.Lock()
	_, looking := p.looks[queue]
	p.looks[queue] = now
	p.mu.Unlock()
	if !looking {
		go p.look(queue)
	}
}

// look goes on until no task has come for a while and nothing is parked, the locks are closed, or nothing can be
// parked.
func (p *parker) look(queue string) {
	timer := time.NewTimer(rand.N(lookEvery))
	defer timer.Stop()
	for again := true; again; {
		some, err := false, error(nil)
		select {
		case <-p.locks.Closed:
		case <-timer.C:
			some, err = p.lookOnce(queue)
		}
		again = p.goesOn(queue, some, err)
		timer.Reset(lookEvery*3/4 + rand.N(lookEvery/2))
	}
}

// goesOn reports whether to look again. If not, the next task begins anew.
func (p *parker) goesOn(queue string, some bool, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed() || p.state.isOff() || errors.Is(err, redis.ErrClosed) || !some && time.Since(p.looks[queue]) > lookFor {
		delete(p.looks, queue)
		return false
	}
	return true
}

// lookOnce wakes a task for each lock that is free. For one lock that is held, a task is woken as well if no worker
// of this server waits: while there is always somebody who waits, a lock is never seen to be free. It reports
// whether anything is parked.
func (p *parker) lookOnce(queue string) (some bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), parked.AnswerIn)
	defer cancel()
	locks, err := p.store.Locks(ctx, queue)
	if err != nil || len(locks) == 0 {
		return false, err
	}
	rand.Shuffle(len(locks), func(i, j int) { locks[i], locks[j] = locks[j], locks[i] })
	pipe := p.locks.Redis.Pipeline()
	exist := make([]*redis.IntCmd, len(locks))
	for i, lock := range locks {
		exist[i] = pipe.Exists(ctx, lock)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return true, err
	}
	waits := p.server.stays()
	for i, lock := range locks {
		w := parked.Want{Queue: queue, Lock: lock}
		held := exist[i].Val() > 0
		if p.know(w); !held || !waits {
			when := parked.Anyway
			if held {
				when, waits = parked.Held, true
			}
			p.wake(w, when)
		}
	}
	return true, nil
}
