package lockmw_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/go/lockmw"
)

// A caller that did not look at Lock's error defers Unlock of a nil hold.
func TestANilHoldIsNotHeld(t *testing.T) {
	ctx, h, err := lockmw.NewLocal().Lock(t.Context(), "")
	if h != nil || err == nil {
		t.Fatalf("Lock of an empty key returns %v, %v", h, err)
	}
	for name, err := range map[string]error{
		"Unlock":          h.Unlock(),
		"Extend":          h.Extend(ctx, time.Minute),
		"Holds.Unlock":    lockmw.Holds{nil}.Unlock(),
		"Local.Downgrade": lockmw.NewLocal().Downgrade(context.Background(), h),
	} {
		var e *lockmw.Error
		if !errors.Is(err, lockmw.ErrNotHeld) || !errors.As(err, &e) {
			t.Errorf("%s: %v, want an *Error that wraps ErrNotHeld", name, err)
		}
	}
}
