package fault

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var flood = []env.Scenario{
	env.Case("released keys leave no memory in use", floodReleased, env.InRealTime|env.Alone|env.Sample|env.Costly),
	env.Case("expired keys leave nothing", floodExpired, env.OnServer|env.OneNode|env.InBubble|env.Costly),
}

// takeMany takes n keys with 50 workers, and calls then with each hold.
func takeMany(e *env.Env, c *env.Client, n int, lease time.Duration, then func(*lockmw.Hold)) {
	var wg sync.WaitGroup
	const workers = 50
	for w := range workers {
		wg.Go(func() {
			for i := range n / workers {
				key := lockmw.Key("item", strconv.Itoa(w), strconv.Itoa(i))
				_, held, err := c.Lock(e.Ctx, key, lockmw.WithFixedLease(lease))
				if err != nil {
					e.T.Errorf("Lock: %v", err)
					return
				}
				then(held)
			}
		})
	}
	wg.Wait()
}

func floodReleased(e *env.Env) {
	n := env.Fewer(50_000)
	c := e.Client().Warm()
	before := usedMemory(e)
	takeMany(e, c, n, time.Minute, func(held *lockmw.Hold) {
		if err := held.Unlock(); err != nil {
			e.T.Errorf("Unlock: %v", err)
		}
	})
	const most = 2 << 20 // less than a fifth of what the keys used
	e.Eventually(env.Patience, func() string {
		if now := usedMemory(e); now > before+most {
			return fmt.Sprintf("the server used %d bytes before and uses %d", before, now)
		}
		return ""
	})
}

func floodExpired(e *env.Env) {
	const marked = time.Minute // how long done marks last
	takeMany(e, e.Client(), env.Fewer(2_000), time.Second, func(*lockmw.Hold) {})
	time.Sleep(2*time.Second + marked)
	keys, err := e.Server.Keys(e.Ctx, e.Server.Prefix)
	if err != nil || len(keys) != 1 || keys[0] != e.Server.Prefix+":fence" {
		e.T.Errorf("%d keys are left, %v: %.10q", len(keys), err, keys)
	}
}

func usedMemory(e *env.Env) int64 {
	e.T.Helper()
	info, err := e.Server.Admin.InfoMap(e.Ctx, "memory").Result()
	if err != nil {
		e.T.Fatal(err)
	}
	n, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
	if err != nil {
		e.T.Fatal(err)
	}
	return n
}
