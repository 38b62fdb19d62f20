package locktest

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/lockmw/go/lockmw"
)

var flood = []scenario{
	{"of released keys leaves the server's memory as it was", floodReleased, realTime | alone | sample | costly},
	{"of expired keys leaves nothing", floodExpired, server | bubble | costly},
}

// takeMany takes n keys at once, and calls then with each hold.
func (e *env) takeMany(c *client, n int, lease time.Duration, then func(*lockmw.Hold)) {
	var wg sync.WaitGroup
	const workers = 50
	for w := range workers {
		wg.Go(func() {
			for i := range n / workers {
				key := lockmw.Key("item", strconv.Itoa(w), strconv.Itoa(i))
				_, held, err := c.Lock(e.ctx, key, lockmw.WithFixedLease(lease))
				if err != nil {
					e.t.Errorf("Lock: %v", err)
					return
				}
				then(held)
			}
		})
	}
	wg.Wait()
}

func floodReleased(e *env) {
	n := fewer(100_000)
	c := e.warm(e.client())
	before := e.usedMemory()
	e.takeMany(c, n, time.Minute, func(held *lockmw.Hold) {
		if err := held.Unlock(); err != nil {
			e.t.Errorf("Unlock: %v", err)
		}
	})
	const most = 2 << 20 // under a tenth of what the keys took
	e.eventually(patience, func() string {
		if now := e.usedMemory(); now > before+most {
			return fmt.Sprintf("the server used %d bytes before and uses %d", before, now)
		}
		return ""
	})
}

func floodExpired(e *env) {
	const marked = time.Minute // for so long are ids marked as over
	e.takeMany(e.client(), fewer(2_000), time.Second, func(*lockmw.Hold) {})
	time.Sleep(2*time.Second + marked)
	keys, err := e.server.Keys(e.ctx, e.admin, e.prefix)
	if err != nil || len(keys) != 1 || keys[0] != e.prefix+":fence" {
		e.t.Errorf("%d keys are left, %v: %.10q", len(keys), err, keys)
	}
}

func (e *env) usedMemory() int64 {
	e.t.Helper()
	info, err := e.admin.InfoMap(e.ctx, "memory").Result()
	if err != nil {
		e.t.Fatal(err)
	}
	n, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
	if err != nil {
		e.t.Fatal(err)
	}
	return n
}
