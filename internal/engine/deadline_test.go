package engine

import (
	"context"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

// A slowContext has not noticed yet that its deadline has passed.
type slowContext struct {
	context.Context
	deadline time.Time
}

func (c slowContext) Deadline() (time.Time, bool) { return c.deadline, true }

// The error of a connection that noticed the deadline of one call is not that of the others, and the call
// itself ends with the error of its context.
func TestACallWhoseDeadlineHasPassedLeadsNoRequest(t *testing.T) {
	passed := newWaiter(slowContext{context.Background(), time.Now().Add(-time.Second)}, &core.Request{Wait: core.Forever})
	open := newWaiter(slowContext{context.Background(), time.Now().Add(time.Hour)}, &core.Request{Wait: core.Forever})
	if !passed.ended() || open.ended() {
		t.Errorf("ended: %t after the deadline, %t before it", passed.ended(), open.ended())
	}
	var c cohort
	c.waiters.push(passed)
	c.waiters.push(open)
	if c.leader() != open {
		t.Error("the call whose deadline has passed leads")
	}
}
