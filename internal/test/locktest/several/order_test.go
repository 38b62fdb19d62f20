package several_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

// longReadTimeout is a read timeout longer than any test here: progress must not depend on a timeout for a node that does not
// answer.
const longReadTimeout = time.Minute

// Waiters get the lock in order once a failed master is replaced, before go-redis gives up on it. An isolated master is
// left out: it may still queue tickets that are lost with their order.
func TestWaitersKeepTheirOrderAfterAFailOver(t *testing.T) {
	gone := func(how absence) bool { return !how.isolates }
	onReplaced(t, gone, func(t *testing.T, start func(t *testing.T) replaceable, how absence) {
		e, servers := newEnv(t, start)
		var lines []lockmw.Locker
		for range 4 {
			c := e.ClientOver(func(o *redis.Options) { o.ReadTimeout = longReadTimeout }, lockmw.WithUnlockTimeout(env.Patience))
			lines = append(lines, fairlock.New(c.Redis))
		}
		key := e.Key("fair")
		ctx, held := e.Lock(lines[0], key, lockmw.WithLease(time.Minute)) // for two attempts at a fail-over
		var waiters []*env.Waiter
		for i := range 3 * len(lines) {
			waiters = append(waiters, e.Wait(lines[i%len(lines)], key))
		}
		at := e.Server.RedisKey(key)
		master := servers.master(at)
		servers.AwaitReplicated(master)
		how.takeDown(t, servers, master)
		late := e.Call(e.Ctx, lines[1], key) // sent to the unavailable master
		servers.awaitPromoted(at, master)
		e.Unlock(ctx, held)
		env.RunInOrderWithin(env.Patience, append(waiters, late))
		how.bringBack(t, servers, master)
		servers.AwaitSettled()
	})
}
