// Package clock has a sleep that ends with a context.
package clock

import (
	"context"
	"time"
)

// Sleep returns nil after d, or the cause of ctx when that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
