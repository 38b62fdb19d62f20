package locktest

import (
	"context"

	"github.com/lockmw/go/lockmw"
)

var panics = []scenario{
	{"in Do releases and goes on", func(e *env) {
		c, key := e.client(), e.key("user")
		e.panicsInside(c, key, func(boom func(context.Context) error) error {
			return lockmw.Do(e.ctx, c, key, boom)
		})
	}, shares | sample},
	{"in a guarded function releases and goes on", func(e *env) {
		c, key := e.client(), e.key("user")
		e.panicsInside(c, key, func(boom func(context.Context) error) error {
			byKey := func(_ context.Context, key string) (string, error) { return key, nil }
			return lockmw.WithLock(c, byKey, func(ctx context.Context, _ string) error { return boom(ctx) })(e.ctx, key)
		})
	}, shares | sample},
}

func (e *env) panicsInside(c *client, key string, guarded func(func(context.Context) error) error) {
	var w *waiter
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				e.t.Errorf("recovered %v", v)
			}
		}()
		err := guarded(func(context.Context) error {
			w = e.wait(e.client(), key)
			panic("boom")
		})
		e.t.Errorf("the panic did not pass: %v", err)
	}()
	e.unlock(w.gets(e.soon))
}
