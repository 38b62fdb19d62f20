package redlock_test

import (
	"context"
	"hash/fnv"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestHoldsAndCallsContinueIfAMinorityFails(t *testing.T) {
	suite.NeedsFull(t, "a lease has to pass")
	t.Parallel()
	for name, fail := range map[string]func(t *testing.T, s *redistest.Server, p *redistest.Proxy){
		"killed": func(_ *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Kill() },
		"stopped": func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) {
			s.Pause(t)
			t.Cleanup(func() { s.Resume(t) })
		},
		"half-open": func(_ *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Swallow() },
		"slow": func(_ *testing.T, _ *redistest.Server, p *redistest.Proxy) {
			p.Delay(700*time.Millisecond, 0)
		},
		"unreachable": func(_ *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Off() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := three(t)
			proxy := all[1].NewProxy(t)
			l := newLocker(t, clients(t, all, func(i int, o *redis.Options) {
				if i == 1 {
					proxy.Use(o)
				}
			}))
			const lease = 10 * time.Second // long enough for a busy machine
			ctx, held := lock(t, l, "held", lockmw.WithLease(lease))
			fail(t, all[1], proxy)
			began, n := time.Now(), 0
			for time.Since(began) < lease+lease/2 {
				_, hold := lock(t, l, "item")
				usertest.Unlock(t, hold)
				if n++; n > 1 {
					break
				}
			}
			select {
			case <-ctx.Done():
				t.Errorf("the hold has ended: %v", context.Cause(ctx))
			case <-time.After(lease + lease/2 - time.Since(began)):
			}
			_ = held.Unlock() // the failed node may have the hold and not confirm
			_, again := lock(t, l, "held")
			_ = again.Unlock()
		})
	}
}

// firstAt returns a key whose calls wait at this node of n.
func firstAt(node uint32, n int) string {
	for i := 0; ; i++ {
		key := lockmw.Key("item", strconv.Itoa(i))
		h := fnv.New32a()
		_, _ = h.Write([]byte(key))
		if h.Sum32()%uint32(n) == node {
			return key
		}
	}
}
