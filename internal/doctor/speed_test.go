package doctor_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/doctor"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A server or a process that is slower than a lease has lost no lock.
func TestALeaseThatRunsOutIsNoLoss(t *testing.T) {
	const lease = time.Second
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		rdb := s.NewClient(t)
		var slow atomic.Bool
		rdb.AddHook(redistest.Hook(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
			// The client also asks for the server's state, by another goroutine.
			if strings.HasPrefix(cmds[0].Name(), "eval") && slow.CompareAndSwap(true, false) {
				time.Sleep(lease * 3 / 2)
			}
			return send()
		}))
		late := false
		locks, err := lockmw.New(rdb, lockmw.WithLease(lease), lockmw.WithObserver(&lockmw.Observer{
			Acquired: func(ctx context.Context, _ lockmw.Attempt, _ lockmw.Acquisition) context.Context {
				slow.Store(late)
				return ctx
			},
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		for range 3 {
			took, err := doctor.TimePairs(t.Context(), locks, "k", func(n int) bool { return n < 1 })
			if err != nil || (took[0] > lease) != late {
				t.Errorf("it took %v, %v; the release is late: %t", took, err, late)
			}
			late = !late
		}
	})
}

func TestHandOversContinueAfterALeaseThatRunsOut(t *testing.T) {
	const lease, want = time.Second, 3
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		var two [2]*lockmw.Client
		for i := range two {
			two[i] = usertest.Client(t, s, lockmw.WithFixedLease(lease))
		}
		stands := true
		took, err := doctor.TimeHandOvers(t.Context(), two, "k", func(n int) bool {
			if n == 1 && stands { // a lock is held
				stands = false
				time.Sleep(2 * lease)
			}
			return n < want
		})
		if err != nil || len(took) != want || slices.Max(took) >= lease {
			t.Errorf("they took %v, %v", took, err)
		}
	})
}
