package engine

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// A slowContext has not noticed yet that its deadline has passed.
type slowContext struct {
	context.Context
	deadline time.Time
}

func (c slowContext) Deadline() (time.Time, bool) { return c.deadline, true }

func answered(ctx context.Context, a *script.Reply) error {
	answers := make(chan *script.Reply, 1)
	answers <- a
	_, err := answerTo(ctx, answers)
	return err
}

func TestAConnectionMayNoticeADeadlineBeforeItsContext(t *testing.T) {
	passed := slowContext{context.Background(), time.Now().Add(-time.Second)}
	open := slowContext{context.Background(), time.Now().Add(time.Hour)}
	timeout := &script.Reply{Err: os.ErrDeadlineExceeded}
	if err := answered(passed, timeout); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("after the deadline: %v", err)
	}
	for name, err := range map[string]error{
		"an answer after the deadline": answered(passed, new(script.Reply)),
		"a timeout before it":          answered(open, timeout),
		"a timeout without one":        answered(context.Background(), timeout),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

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
