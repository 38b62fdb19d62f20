package httpmw

import (
	"context"
	"errors"

	"github.com/lockmw/go/lockmw"
)

// lossOf returns why the lock of ctx is lost, nil if it is not.
func lossOf(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if cause := context.Cause(ctx); isLoss(cause) {
		return cause
	}
	// The context may have ended before, with a cause of its own.
	if hold, found := lockmw.FromContext(ctx); found {
		if _, err := lockmw.Held(ctx, hold.Key()); isLoss(err) {
			return err
		}
	}
	return nil
}

func isLoss(err error) bool {
	return errors.Is(err, lockmw.ErrLost) || errors.Is(err, lockmw.ErrClosed)
}
