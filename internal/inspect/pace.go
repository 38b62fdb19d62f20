package inspect

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/pause"
)

// A pace keeps work for servers within a share of the time: after what took a while come pauses.
type pace struct {
	share float64
	owed  time.Duration // how long it has still to pause
}

// shortestPause is below which pauses add up: timers are no more exact than that.
const shortestPause = time.Millisecond

// work runs f, which asks a server, and pauses. It returns f's error immediately, and the end of ctx.
func (p *pace) work(ctx context.Context, f func() error) error {
	started := time.Now()
	if err := f(); err != nil {
		return err
	}
	p.owed += time.Duration(float64(time.Since(started)) * (1/p.share - 1))
	if p.owed < shortestPause {
		return ctx.Err()
	}
	owed := p.owed
	p.owed = 0
	pause.For(ctx, owed)
	return ctx.Err()
}
