package locktest

import (
	"slices"
	"sync"
	"time"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

var fairKinds = []scenario{
	{"fair, plain and write locks of one key stand in one queue", kindsInOneQueue, fair | server | shares | sample},
	{"fair, plain and write locks of one key exclude each other", kindsExclude, fair | server | shares | sample},
}

func kindsInOneQueue(e *env) {
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	writes := func(c *client) lockmw.Locker { return rwlock.New(c.redis) }
	ctx, held := e.lock(a.redis, q.key)
	q.join(b)
	q.join(b.redis)
	q.join(writes(a))
	q.join(a)
	q.join(writes(b))
	want := []string{"fair", "exclusive", "write", "fair", "write"}
	var got []string
	for _, w := range e.inspect(q.key).Waiters {
		got = append(got, w.Mode)
	}
	if !slices.Equal(got, want) {
		e.t.Errorf("the modes in the queue are %q, want %q", got, want)
	}
	e.busy(a, q.key)
	e.busy(b.redis, q.key)
	e.unlock(ctx, held)
	q.run()
}

// inspect returns what the server has of a key.
func (e *env) inspect(key string) lockmw.Status {
	e.t.Helper()
	inspector, err := lockmw.NewInspector(e.admin, lockmw.WithPrefix(e.prefix))
	if err != nil {
		e.t.Fatal(err)
	}
	status, err := inspector.Get(e.ctx, key)
	if err != nil {
		e.t.Fatalf("inspecting: %v", err)
	}
	return status
}

func kindsExclude(e *env) {
	const contenders, rounds = 24, 10
	clients, key := e.clients(3), e.key("item")
	var wg sync.WaitGroup
	for i := range contenders {
		c := clients[i%len(clients)]
		l := []lockmw.Locker{c, c.redis, rwlock.New(c.redis)}[i/len(clients)%3]
		wg.Go(func() {
			for range rounds {
				ctx, held, err := e.rec.Lock(e.ctx, l, key)
				if err != nil {
					e.t.Errorf("Lock: %v", err)
					return
				}
				e.pass(50 * time.Microsecond)
				e.unlock(ctx, held)
			}
		})
	}
	wg.Wait()
	if n := e.rec.Grants(key); n != contenders*rounds {
		e.t.Errorf("%d grants, want %d", n, contenders*rounds)
	}
}
