package env

import (
	"context"
	"strings"

	"github.com/lockmw/go/internal/test/leak"
)

// checkClosed runs after all clients are closed and looks for subscriptions and goroutines that they left.
func (e *Env) checkClosed() {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	e.Eventually(e.Soon, func() string {
		channels, err := e.Server.Channels(ctx)
		if err != nil {
			return err.Error()
		}
		if len(channels) > 0 {
			return "still subscribed: " + strings.Join(channels, " ")
		}
		return ""
	})
	e.Eventually(e.Soon, func() string { return engineGoroutine(e.goroutines) }) // goroutines may still be ending
}

// engineGoroutine looks for goroutines that a closed Client has left.
func engineGoroutine(among leak.Goroutines) string {
	if stack := among.In("/lockmw/go/internal/engine.", "/lockmw/go/internal/quorum."); stack != "" {
		return "still running: " + stack
	}
	return ""
}
