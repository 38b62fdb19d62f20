package redistest

import (
	"sync"
	"testing"
	"time"
)

// A Clock is the clock of an embedded server, which a test can step. Like Redis, which stores when a key ends and not how long
// it lives, it makes keys end sooner after a step forwards and later after a step backwards.
type Clock struct {
	server *Server

	mu     sync.Mutex
	offset time.Duration // from this process' clock
}

// clockTick is how often the server's clock moves: miniredis' own stands still once it has been set.
const clockTick = 5 * time.Millisecond

// NewClock gives an embedded server a clock of its own, until the test ends.
func (s *Server) NewClock(t testing.TB) *Clock {
	c := &Clock{server: s}
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(clockTick)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.Now()
			case <-quit:
				return
			}
		}
	})
	t.Cleanup(func() {
		close(quit)
		wg.Wait()
	})
	return c
}

// Now returns the server's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set()
}

// set moves the server's clock to where it should be; c.mu is held.
func (c *Clock) set() time.Time {
	now := time.Now().Add(c.offset)
	c.server.Mini.SetTime(now)
	return now
}

// Step moves the server's clock by d, forwards or backwards, and returns the server's time.
func (c *Clock) Step(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set()
	m := c.server.Mini
	var expiring []string
	for _, key := range m.Keys() { // which expires those whose time has come
		if m.TTL(key) > 0 {
			expiring = append(expiring, key)
		}
	}
	c.offset += d
	now := c.set()
	if d < 0 { // miniredis handles a step forwards by itself
		for _, key := range expiring {
			m.SetTTL(key, m.TTL(key)-d)
		}
	}
	return now
}
