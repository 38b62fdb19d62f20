package server

import (
	"context"
	"sync"
	"time"

	"github.com/lockmw/go/internal/bench/stat"
)

// Pings are PINGs of a separate client, one after the other.
type Pings struct {
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	latency stat.Latency
	err     error
}

// Ping begins to send PINGs, with a pause after each answer.
func (s *Server) Ping(ctx context.Context, pause time.Duration) *Pings {
	p := new(Pings)
	ctx, p.cancel = context.WithCancel(ctx)
	p.wg.Go(func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			begun := time.Now()
			err := s.rdbs[0].Ping(ctx).Err()
			if ctx.Err() != nil {
				return
			}
			if p.err = err; err != nil {
				return
			}
			p.latency.Record(time.Since(begun))
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return p
}

// Stop ends the PINGs, and returns the times of the answers.
func (p *Pings) Stop() (*stat.Latency, error) {
	p.cancel()
	p.wg.Wait()
	return &p.latency, p.err
}
