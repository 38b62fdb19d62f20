package ways

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
)

// bySetNX returns the ways with hand-written Redis locks. Each one fixes a mistake of the one before.
func bySetNX() []Way {
	return []Way{
		{Name: "setnx", Does: "SETNX, DEL", Open: openSetNX},
		{Name: "setnx-expiry", Does: "… with an expiry", Open: openExpiry},
		{Name: "setnx-value", Does: "… a random value, checked before DEL", Open: openValue},
		{Name: "setnx-lua", Does: "… checked and deleted by a script", Open: openDeleteScript},
		{Name: "setnx-count", Does: "… a hash with a count, renewed", Open: openCounted},
	}
}

// lockKey is the key of an item's lock.
func (e *Env) lockKey(c *Call) string { return e.Name + ":lock:" + c.Item }

// openSetNX is version 1.
func openSetNX(e *Env) (Buy, error) {
	return simpleLock{
		acquire: func(ctx context.Context, c *Call, _ string) (bool, error) { return e.setNX(ctx, c, "taken", 0) },
		release: e.del,
	}.open(e)
}

// openExpiry is version 2: the lock of a dead process becomes free.
func openExpiry(e *Env) (Buy, error) {
	return simpleLock{
		acquire: func(ctx context.Context, c *Call, _ string) (bool, error) { return e.setNX(ctx, c, "taken", e.Lease) },
		release: e.del,
	}.open(e)
}

func (e *Env) setNX(ctx context.Context, c *Call, value string, ttl time.Duration) (bool, error) {
	err := e.Redis.SetArgs(ctx, e.lockKey(c), value, redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}

func (e *Env) setOwner(ctx context.Context, c *Call, owner string) (bool, error) {
	return e.setNX(ctx, c, owner, e.Lease)
}

func (e *Env) del(ctx context.Context, c *Call, _ string) error {
	return e.Redis.Del(ctx, e.lockKey(c)).Err()
}

// openValue is version 3: a holder deletes the lock only if it is its own. Between check and delete it may go to another call.
func openValue(e *Env) (Buy, error) {
	return simpleLock{
		acquire: e.setOwner,
		release: func(ctx context.Context, c *Call, owner string) error {
			value, err := e.Redis.Get(ctx, e.lockKey(c)).Result()
			if errors.Is(err, redis.Nil) {
				return nil
			}
			if err != nil || value != owner {
				return err
			}
			return errors.Join(c.at(ctx, Checked), e.del(ctx, c, owner))
		},
	}.open(e)
}

// openDeleteScript is version 4: check and deletion are atomic.
func openDeleteScript(e *Env) (Buy, error) {
	return simpleLock{
		acquire: e.setOwner,
		release: func(ctx context.Context, c *Call, owner string) error {
			return deleteIfMine.Run(ctx, e.Redis, []string{e.lockKey(c)}, owner).Err()
		},
	}.open(e)
}

// openCounted is version 5: the holder may take the lock again, and renews it during its work.
func openCounted(e *Env) (Buy, error) {
	return simpleLock{
		acquire: e.countUp,
		release: func(ctx context.Context, c *Call, owner string) error {
			return countDown.Run(ctx, e.Redis, []string{e.lockKey(c)}, owner, e.Lease.Milliseconds()).Err()
		},
		keep: e.renew,
	}.open(e)
}

// countUp tries to take the lock. It retries after a broken connection, because the first command may not have arrived. That
// is the mistake of this version: if it had arrived, the lock is taken twice.
func (e *Env) countUp(ctx context.Context, c *Call, owner string) (bool, error) {
	run := func(ctx context.Context) (bool, error) {
		return countUp.Run(ctx, e.Redis, []string{e.lockKey(c)}, owner, e.Lease.Milliseconds()).Bool()
	}
	got, err := run(c.losingReply(ctx))
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return run(ctx)
	}
	return got, err
}

// renew renews the lock until stop is called. It does not detect that the lock is lost.
func (e *Env) renew(ctx context.Context, c *Call, owner string) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(e.Lease / 3)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = renew.Run(ctx, e.Redis, []string{e.lockKey(c)}, owner, e.Lease.Milliseconds()).Err() // the next renewal may succeed
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

var (
	//go:embed countup.lua
	countUpText string
	//go:embed countdown.lua
	countDownText string

	countUp      = redis.NewScript(countUpText)
	countDown    = redis.NewScript(countDownText)
	deleteIfMine = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)
	renew = redis.NewScript(`
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`)
)
