package env

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/lockmw"
)

// A Load is a set of goroutines that contend for keys while a scenario injects faults.
type Load struct {
	e    *Env
	keys []string
	stop chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex
	freed  map[string]time.Time // when the last Unlock of each key returned
	idle   time.Duration        // the longest time that a key was free while a call waited for it
	idlest string               // the key with that time
}

// Load starts the given number of goroutines for each of n keys, spread over the clients. Each goroutine locks and unlocks
// its key in a loop until the load ends.
func (e *Env) Load(clients []*Client, n, each int) *Load {
	l := &Load{e: e, stop: make(chan struct{}), freed: make(map[string]time.Time)}
	e.T.Cleanup(l.quit)
	for range n {
		key := e.Key("item")
		l.keys = append(l.keys, key)
		for i := range each {
			l.wg.Go(func() { l.contend(clients[i%len(clients)].Nth(i/len(clients)), key) })
		}
	}
	return l
}

func (l *Load) contend(c lockmw.Locker, key string) {
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		start := time.Now()
		ctx, held, err := l.e.Rec.Lock(l.e.Ctx, c, key)
		if err != nil {
			l.e.T.Errorf("Lock under load: %v", err)
			return
		}
		l.taken(key, start)
		l.work(ctx)
		if err := held.Unlock(); err != nil {
			l.e.T.Errorf("Unlock under load: %v", err)
			return
		}
		l.mu.Lock()
		l.freed[key] = time.Now()
		l.mu.Unlock()
	}
}

// work takes a round trip to the server, and so long that the load does not keep a processor busy.
func (l *Load) work(ctx context.Context) {
	l.e.Server.Admin.Ping(ctx)
	l.e.Pass(5 * time.Millisecond)
}

// taken records a grant of key to a call that began at start.
func (l *Load) taken(key string, start time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since := l.freed[key]
	if since.Before(start) {
		since = start
	}
	if idle := l.e.Pace.Since(since); idle > l.idle {
		l.idle, l.idlest = idle, key
	}
}

// AwaitGrants waits until every key is granted once more, unless the scenario has failed.
func (l *Load) AwaitGrants() {
	l.e.T.Helper()
	enough := make(map[string]int)
	for _, key := range l.keys {
		enough[key] = l.e.Rec.Grants(key) + 1
	}
	l.e.Eventually(Patience, func() string {
		for key, n := range enough {
			if l.e.Rec.Grants(key) < n && !l.e.T.Failed() {
				return key + " is not granted"
			}
		}
		return ""
	})
}

// End stops the load. It checks that every key had at least that many grants, and that no key was free for longer than bound
// while a call waited for it.
func (l *Load) End(grants int, bound time.Duration) {
	l.e.T.Helper()
	l.e.Eventually(Patience, func() string {
		for _, key := range l.keys {
			if n := l.e.Rec.Grants(key); n < grants {
				return fmt.Sprintf("%s: %d grants, want %d", key, n, grants)
			}
		}
		return ""
	})
	l.quit()
	if l.idle > bound {
		l.e.T.Errorf("%s was free for %v while a call waited for it, longer than %v", l.idlest, l.idle, bound)
	}
}

// quit stops the goroutines. Some may still wait for a lock; they get it as usual.
func (l *Load) quit() {
	l.mu.Lock()
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.mu.Unlock()
	l.wg.Wait()
}

// FlushUnderLoad calls Flush(passed) several times while 16 goroutines lock key in rounds. Goroutine n uses locker(n).
func (e *Env) FlushUnderLoad(key string, rounds, flushes int, passed bool, locker func(n int) lockmw.Locker) {
	const contenders = 16
	var ops atomic.Int32
	var wg sync.WaitGroup
	for i := range contenders {
		l := locker(i)
		wg.Go(func() {
			for range rounds {
				_, held, err := e.Rec.Lock(e.Ctx, l, key)
				if err != nil {
					e.T.Errorf("Lock: %v", err)
					return
				}
				// Tokens are seeded from the server's clock, so the work must take time.
				e.Pass(time.Millisecond)
				if int(ops.Add(1))%(contenders*rounds/flushes) == 0 {
					e.Flush(passed)
				}
				if err := held.Unlock(); err != nil && !errors.Is(err, lockmw.ErrLost) {
					e.T.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if n := int(ops.Load()); n != contenders*rounds {
		e.T.Errorf("%d grants, want %d", n, contenders*rounds)
	}
	e.Free(locker(0), key)
}
