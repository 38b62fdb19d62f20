package lockmw_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A replica lags from the run of a job on, and takes the place of the master. Another process then calls Once for the same
// tick at the new one.
func TestOnceSaysThatATickWasRunOnlyIfReplicasHaveItsMark(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		opts []lockmw.ClientOption
	}{
		{"without WithReplicas", nil},
		{"WithReplicas", []lockmw.ClientOption{lockmw.WithReplicas(1, 200*time.Millisecond)}},
	} {
		for _, lags := range []bool{false, true} {
			t.Run(tt.name+map[bool]string{false: ", the replica keeps up", true: ", the replica lags"}[lags], func(t *testing.T) {
				t.Parallel()
				s := newSuccession(t)
				locks := usertest.Abandoned(t, s.master.NewClient(t), tt.opts...)
				tick := lockmw.Tick{At: time.Now(), Within: time.Minute}
				lease := 10 * time.Second
				if lags {
					lease = 2 * time.Second // the next call waits for its end, because no release reaches the replica
				}
				ctx, hurry := context.WithCancel(t.Context())
				defer hurry()
				ran, err := lockmw.Once(ctx, locks, jobKey, tick, func(context.Context) error {
					s.await() // it has what was written so far
					if lags {
						s.link.Swallow()
						hurry() // does not wait for the replica until the tick has passed
					}
					return nil
				}, lockmw.WithLease(lease))
				if !ran || err != nil && !errors.Is(err, lockmw.ErrUnavailable) {
					t.Fatalf("Once: %t, %v", ran, err)
				}
				if !lags {
					s.await()
				}
				s.succeed()
				again, errAgain := lockmw.Once(t.Context(), usertest.Abandoned(t, s.replica.NewClient(t)), jobKey, tick, func(context.Context) error { return nil })
				t.Logf("Once: %v; after the fail-over: %t, %v", err, again, errAgain)
				switch with := tt.opts != nil; {
				case !lags && (err != nil || again || errAgain != nil):
					t.Errorf("Once: %v; at the new master it was run again: %t, %v", err, again, errAgain)
				case lags && with && (err == nil || again && errAgain != nil):
					t.Errorf("Once: %v, though its replica has no mark", err)
				case lags && !with && (err != nil || !again):
					t.Errorf("the test cannot fail: Once: %v; at the new master it was run again: %t, %v", err, again, errAgain)
				}
			})
		}
	}
}
