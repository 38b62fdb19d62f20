package plain

import (
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var shorterLeases = []env.Scenario{
	env.Case("a shorter fixed lease is refused and changes nothing", func(e *env.Env) { refusesShorter(e, lockmw.WithFixedLease) }, env.Shares|env.Sample),
	env.Case("a shorter renewed lease is refused and changes nothing", func(e *env.Env) { refusesShorter(e, lockmw.WithLease) }, env.Shares|env.Sample),
	env.Case("a shorter lease is accepted if a fixed one is about to expire", extendsWhatIsNearlyOver, env.Shares),
}

func refusesShorter(e *env.Env, with func(time.Duration) lockmw.Option) {
	const lease = time.Hour
	c, key := e.Client(), e.Key("task")
	ctx, held := e.Lock(c, key, with(lease))
	before := held.Deadline()
	for _, shorter := range []time.Duration{env.MinLease, time.Minute, lease - time.Minute} {
		e.Is("Extend to a shorter lease", held.Extend(ctx, shorter), lockmw.ErrInvalidOption)
	}
	// Over several nodes the deadline moves slightly when another node joins.
	if d := held.Deadline(); !d.Equal(before) && (e.Config.OverNodes == nil || d.Before(before) || d.Sub(before) > e.Soon) {
		e.T.Errorf("the deadline moved by %v", d.Sub(before))
	}
	if e.Server != nil && e.Config.OverNodes == nil { // one of several nodes may grant the lock later
		if left := e.Server.Admin.PTTL(e.Ctx, e.Server.RedisKey(key)).Val(); left < lease-time.Minute {
			e.T.Errorf("the server keeps the lock only for %v", left)
		}
	}
	if err := held.Extend(ctx, lease); err != nil {
		e.T.Errorf("Extend to the same lease: %v", err)
	}
	e.Unlock(ctx, held)
	e.Free(e.Client(), key)
}

func extendsWhatIsNearlyOver(e *env.Env) {
	lease := e.Ample(time.Second)
	c, key := e.Client(), e.Key("task")
	ctx, held := e.Lock(c, key, lockmw.WithFixedLease(lease))
	e.Pass(lease - lease/4)
	before := held.Deadline()
	if err := held.Extend(ctx, lease/2); err != nil {
		e.T.Errorf("Extend beyond the remaining lease: %v", err)
	}
	if d := held.Deadline(); !d.After(before) {
		e.T.Errorf("the deadline moved by %v", d.Sub(before))
	}
	e.Unlock(ctx, held)
	e.Free(e.Client(), key)
}
