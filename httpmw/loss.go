package httpmw

import (
	"context"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/lockmw"
)

// lossOf returns why the lock of ctx is lost, nil if it is not.
func lossOf(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if cause := context.Cause(ctx); core.IsLoss(cause) {
		return cause
	}
	// The context may have ended before the loss, with a cause of its own.
	if hold, found := lockmw.FromContext(ctx); found {
		if _, err := lockmw.Held(ctx, hold.Key()); core.IsLoss(err) {
			return err
		}
	}
	return nil
}
