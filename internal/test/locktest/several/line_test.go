package several_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

// hung is the read timeout of a client that waits for a node that does not answer for as long as this test may take: what
// goes on does so because it does not wait for that.
const hung = time.Minute

// All who wait when a master goes away have the lock in their order when another one has its place, and not when go-redis
// gives up. One that is cut off may still take tickets that are lost, with their order.
func TestALineGoesOnInItsOrderAfterAFailOver(t *testing.T) {
	gone := func(how absence) bool { return !how.divides }
	onReplaced(t, gone, func(t *testing.T, start func(t *testing.T) replaceable, how absence) {
		e, servers := newEnv(t, start)
		var lines []lockmw.Locker
		for range 4 {
			c := e.ClientOver(func(o *redis.Options) { o.ReadTimeout = hung }, lockmw.WithUnlockTimeout(env.Patience))
			lines = append(lines, fairlock.New(c.Redis))
		}
		key := e.Key("fair")
		ctx, held := e.Lock(lines[0], key)
		var waiters []*env.Waiter
		for i := range 3 * len(lines) {
			waiters = append(waiters, e.Wait(lines[i%len(lines)], key))
		}
		at := e.Server.RedisKey(key)
		master := servers.master(at)
		servers.AwaitReplicated(master)
		how.goes(t, servers, master)
		late := e.Call(e.Ctx, lines[1], key) // sent to the one that is away
		servers.awaitPromoted(at, master)
		e.Unlock(ctx, held)
		env.RunInOrderWithin(env.Patience, append(waiters, late))
		how.returns(t, servers, master)
		servers.AwaitSettled()
	})
}
