package fair

import (
	"slices"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

var kinds = []env.Scenario{
	env.Case("fair, plain and write locks of a key share one queue", kindsInOneQueue, env.Fair|env.Mixes|env.OnServer|env.Shares|env.Sample),
}

func kindsInOneQueue(e *env.Env) {
	a, b, q := e.Client(), e.Client(), newLine(e, e.Key("item"))
	writes := func(c *env.Client) lockmw.Locker { return rwlock.New(c.Redis) }
	ctx, held := e.Lock(a.Redis, q.key)
	q.join(b)
	q.join(b.Redis)
	q.join(writes(a))
	q.join(a)
	q.join(writes(b))
	want := []string{"fair", "exclusive", "write", "fair", "write"}
	var got []string
	for _, w := range inspect(e, q.key).Waiters {
		got = append(got, w.Mode)
	}
	if !slices.Equal(got, want) {
		e.T.Errorf("the modes in the queue are %q, want %q", got, want)
	}
	e.Busy(a, q.key)
	e.Busy(b.Redis, q.key)
	e.Unlock(ctx, held)
	q.run()
}

// inspect returns an Inspector's status of key.
func inspect(e *env.Env, key string) lockmw.Status {
	e.T.Helper()
	status, err := e.Server.Inspector().Get(e.Ctx, key)
	if err != nil {
		e.T.Fatalf("inspecting: %v", err)
	}
	return status
}
