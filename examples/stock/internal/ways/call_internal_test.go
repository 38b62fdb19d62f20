package ways

import (
	"context"
	"errors"
	"testing"
)

// A lateContext has ended, but its Done is not closed yet: its process was paused until now.
type lateContext struct{ context.Context }

func (lateContext) Err() error { return context.Canceled }

func TestAHolderThatResumesSendsNoWrite(t *testing.T) {
	for _, stop := range []Point{"", Sent} {
		c := &Call{StopAt: stop, Stop: func(context.Context) error { return nil }}
		if _, err := c.send(lateContext{t.Context()}); !errors.Is(err, context.Canceled) {
			t.Errorf("with StopAt %q, send returned %v", stop, err)
		}
	}
}
