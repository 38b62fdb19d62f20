package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// turn is how long a halved server alternately runs and stands still.
const turn = 5 * time.Millisecond

// Halve alternately stops and resumes the server's process until whole is called, so that it gets no more than about half of a
// processor. The error wraps errors.ErrUnsupported where processes cannot be stopped.
func (s *Server) Halve(ctx context.Context) (whole func(), err error) {
	if len(s.own) != 1 {
		return nil, errors.New("only a single server that the benchmark has started can be halved")
	}
	own := s.own[0]
	if err := errors.Join(own.Pause(ctx), own.Resume()); err != nil {
		return nil, fmt.Errorf("stopping the server's process: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(turn)
		defer tick.Stop()
		for runs := true; ; runs = !runs {
			select {
			case <-tick.C:
			case <-ctx.Done():
				_ = own.Resume() // it may have ended
				return
			}
			if runs {
				_ = own.Pause(ctx) // it may have ended
			} else {
				_ = own.Resume()
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}, nil
}
