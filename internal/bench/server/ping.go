package server

import (
	"context"
	"sync"
	"time"

	"github.com/lockmw/go/internal/bench/stat"
)

// Pings are PINGs of a separate client, one after the other.
type Pings struct {
	stop    chan struct{}
	wg      sync.WaitGroup
	latency stat.Latency
	err     error
}

// Ping begins to send PINGs, with a pause after each answer.
func (s *Server) Ping(ctx context.Context, pause time.Duration) *Pings {
	p := &Pings{stop: make(chan struct{})}
	p.wg.Go(func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			begun := time.Now()
			if p.err = s.rdbs[0].Ping(ctx).Err(); p.err != nil {
				return
			}
			p.latency.Record(time.Since(begun))
			select {
			case <-tick.C:
			case <-p.stop:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	return p
}

// Stop ends the PINGs after the last answer, which may be the slowest, and returns the times of all. There is at least one.
func (p *Pings) Stop() (*stat.Latency, error) {
	close(p.stop)
	p.wg.Wait()
	return &p.latency, p.err
}
