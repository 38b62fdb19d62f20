package plain

import (
	"context"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var panics = []env.Scenario{
	env.Case("a panic in Do releases the lock and is passed on", func(e *env.Env) {
		c, key := e.Client(), e.Key("user")
		panicsInside(e, c, key, func(boom func(context.Context) error) error {
			return lockmw.Do(e.Ctx, c, key, boom)
		})
	}, env.Shares|env.Sample),
	env.Case("a panic in a guarded function releases the lock and is passed on", func(e *env.Env) {
		c, key := e.Client(), e.Key("user")
		panicsInside(e, c, key, func(boom func(context.Context) error) error {
			byKey := func(_ context.Context, key string) (string, error) { return key, nil }
			return lockmw.WithLock(c, byKey, func(ctx context.Context, _ string) error { return boom(ctx) })(e.Ctx, key)
		})
	}, env.Shares|env.Sample),
}

func panicsInside(e *env.Env, c *env.Client, key string, guarded func(func(context.Context) error) error) {
	var w *env.Waiter
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				e.T.Errorf("recovered %v", v)
			}
		}()
		err := guarded(func(context.Context) error {
			w = e.Wait(e.Client(), key)
			panic("boom")
		})
		e.T.Errorf("the panic was swallowed: %v", err)
	}()
	e.Unlock(w.Gets(e.Soon))
}
