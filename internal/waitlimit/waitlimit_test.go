package waitlimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/waitlimit"
)

func TestTheContextEndsWhenTheLimitIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, limit := waitlimit.Start(t.Context(), time.Minute)
		defer limit.Release()
		<-ctx.Done()
		if passed := time.Since(start); passed != time.Minute {
			t.Errorf("ended after %v, want 1m", passed)
		}
		if limit.Stop() {
			t.Error("Stop after the limit was reached reports true")
		}
	})
}

func TestAStoppedLimitLeavesTheContextAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, limit := waitlimit.Start(t.Context(), time.Minute)
		if !limit.Stop() {
			t.Error("Stop in time reports false")
		}
		later, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		<-later.Done()
		if err := ctx.Err(); err != nil {
			t.Errorf("the context ended: %v", err)
		}
		if _, ok := ctx.Deadline(); ok {
			t.Error("the context has a deadline, which a hold would inherit")
		}
		limit.Release()
		if ctx.Err() == nil {
			t.Error("Release did not end the context")
		}
	})
}

func TestWithoutALimitTheContextIsTheCallers(t *testing.T) {
	ctx, limit := waitlimit.Start(t.Context(), 0)
	if ctx != t.Context() || !limit.Stop() {
		t.Error("no limit was asked for")
	}
	limit.Release()
	if err := ctx.Err(); err != nil {
		t.Error(err)
	}
}
