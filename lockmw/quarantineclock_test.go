package lockmw_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// forgetful returns a server with a clock of its own that has lost a lock, and who has that.
func forgetful(t *testing.T, lease, length time.Duration) (server *redistest.Server, client func() *lockmw.Client, holder fixedHold) {
	t.Helper()
	server = redistest.Clocked(t, 0)
	client = func() *lockmw.Client {
		return usertest.Abandoned(t, server.NewClient(t), lockmw.WithLease(lease), lockmw.WithQuarantine(length))
	}
	server.StepClock(t, time.Hour) // it has run for long, by what it says
	holder = holdFixed(t, client(), "item", lease)
	server.Kill()
	server.Restart(t)
	return server, client, holder
}

// The clock of a server that has lost a lock is set forwards over the whole quarantine. Who asks the server for the first
// time believes it. Who has asked before has a clock of its own.
func TestAStepForwardsIsAHoleInTheQuarantineOfThoseWhoComeLater(t *testing.T) {
	for name, asked := range map[string]bool{"no process has asked before": false, "another process has asked before": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const lease, length = 2 * time.Minute, 3 * time.Minute
			server, client, holder := forgetful(t, lease, length)
			before := client()
			if asked {
				wantRefused(t, before, "item")
			}
			server.StepClock(t, length+time.Second)
			if asked {
				wantRefused(t, before, "item")
			}
			_, h, err := client().TryLock(context.WithoutCancel(t.Context()), "item")
			if err != nil {
				t.Fatalf("the hole is closed, and the documents say it is not: %v", err)
			}
			if holder.ctx.Err() != nil {
				t.Error("the holder's deadline has passed: the test shows nothing")
			}
			usertest.Unlock(t, h)
		})
	}
}

// The clock of a server that has lost a lock is set backwards. No client ends the quarantine early, and none waits
// longer than one quarantine by its own clock.
func TestAStepBackwardsProlongsNoQuarantine(t *testing.T) {
	suite.NeedsFull(t, "it takes seconds")
	t.Parallel()
	begun := time.Now()
	server, client, holder := forgetful(t, keptLease, longQuarantine)
	before, after := client(), client()
	wantRefused(t, before, "item")
	server.StepClock(t, -time.Hour)
	wantRefused(t, after, "other")
	asked := time.Now()
	var wg sync.WaitGroup
	for key, locks := range map[string]*lockmw.Client{"item": before, "other": after} {
		wg.Go(func() {
			h := hold(t, locks, key)
			if h == nil {
				return
			}
			if holder.ctx.Err() == nil {
				t.Errorf("%s is had before the deadline of a holder", key)
			}
			if took := time.Since(begun); took < longQuarantine {
				t.Errorf("%s is had %v after the restart", key, took)
			}
			if took := time.Since(asked); took > 2*longQuarantine {
				t.Errorf("%s is had after %v", key, took)
			}
			usertest.Unlock(t, h)
		})
	}
	wg.Wait()
	wantRefused(t, client(), "item") // one more process waits by its own clock, as the server's says nothing
}
