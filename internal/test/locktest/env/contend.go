package env

import (
	"sync"
	"time"

	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

// Crowd starts n goroutines that lock and unlock key in a loop until stop is called.
func (e *Env) Crowd(l lockmw.Locker, key string, n int, work time.Duration, opts ...lockmw.Option) (stop func()) {
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range n {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				ctx, held, err := e.Rec.Lock(e.Ctx, l, key, opts...)
				if err != nil {
					e.T.Errorf("Lock: %v", err)
					return
				}
				time.Sleep(work) // work under the lock
				e.Unlock(ctx, held)
			}
		})
	}
	return func() {
		close(done)
		wg.Wait()
	}
}

// Contend runs n goroutines, spread over the clients. Each of them locks key, calls work and unlocks, rounds times.
func (e *Env) Contend(clients []*Client, key string, n, rounds int, work func(h *recording.Held)) {
	var wg sync.WaitGroup
	for i := range n {
		l := clients[i%len(clients)].Nth(i / len(clients))
		wg.Go(func() {
			for range rounds {
				ctx, held, err := e.Rec.Lock(e.Ctx, l, key)
				if err != nil {
					e.T.Errorf("Lock: %v", err)
					return
				}
				work(held)
				e.Unlock(ctx, held)
			}
		})
	}
	wg.Wait()
}
