package asynqmw

import (
	"log/slog"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/internal/test/parkedtest"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
)

// Tasks of a hot key may occupy a worker all the time. This delays a task of a key that others hold all the time only if no other
// worker may wait.
func TestATaskIsWokenToAHeldLockAlthoughOthersWait(t *testing.T) {
	for name, tt := range map[string]struct {
		waiting int // of 4 workers, half of which may wait
		want    time.Duration
	}{
		"no worker waits":                     {0, heldEvery},
		"a worker waits, and another one may": {1, heldEvery},
		"half of the workers wait":            {2, 2 * heldEvery},
	} {
		t.Run(name, func(t *testing.T) {
			usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
				rdb := s.NewClient(t)
				parkedtest.Park(t, rdb, "default", "lockmw:{item:7}", time.Now(), "a")
				rdb.HSet(t.Context(), "lockmw:{item:7}", "owner", "o")
				server := newServer(4)
				for range tt.waiting {
					server.beginWait()
				}
				p := server.parker(core.Backend{Redis: rdb}, parked.Store{Redis: rdb}, slog.New(slog.DiscardHandler))
				l, began := &lookState{first: make(chan struct{}, 1), held: time.Now()}, time.Now()
				for rdb.LLen(t.Context(), "asynq:{default}:pending").Val() == 0 {
					if _, err := p.lookOnce("default", l); err != nil || time.Since(began) > time.Minute {
						t.Fatalf("no task is woken within %v, %v", time.Since(began), err)
					}
					time.Sleep(lookEvery)
				}
				if took := time.Since(began); took < tt.want || took > tt.want+4*lookEvery {
					t.Errorf("a task is woken after %v, want %v", took, tt.want)
				}
			})
		})
	}
}
