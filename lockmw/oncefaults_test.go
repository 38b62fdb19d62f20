package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// tickScript is the hash of begin.lua or mark.lua.
func tickScript(name string) string {
	return script.NewSet(script.DefaultParams(true)).All()[name].SHA
}

func TestOnceWaitsForARedisThatIsAway(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		wire := s.NewWire()
		c := usertest.ClientOf(t, s.NewClient(t, wire.Use))
		wire.Cut()
		tick := lockmw.Every(time.Hour)
		ran, err := lockmw.Once(t.Context(), c, jobKey, tick, nothing(t))
		if late := time.Since(tick.At) - time.Minute; ran || !errors.Is(err, lockmw.ErrUnavailable) || late < 0 || late > 500*time.Millisecond {
			t.Errorf("Once: %t, %v after %v, want ErrUnavailable after a minute", ran, err, time.Since(tick.At))
		}
		tick = lockmw.Tick{At: time.Now()}
		time.AfterFunc(30*time.Second, wire.Restore)
		wantRun(t, "when Redis is back", c, tick)
	})
}

// warmReplicas returns two replicas. The first, whose wire it returns, has run a job: it has no script to load any more.
func warmReplicas(t *testing.T, s *redistest.Server) (wire *redistest.Wire, first, second *lockmw.Client) {
	t.Helper()
	wire = s.NewWire()
	first, second = usertest.ClientOf(t, s.NewClient(t, wire.Use)), usertest.Client(t, s)
	run := func(context.Context) error { return nil }
	if _, err := lockmw.Once(t.Context(), first, "warm:up", lockmw.Every(time.Hour), run); err != nil {
		t.Fatal(err)
	}
	return wire, first, second
}

// Lost answers are asked for again, and what was done twice counts once.
func TestLostAnswersDoNotMakeATickRunTwice(t *testing.T) {
	for _, name := range []string{"begin", "mark"} {
		for how, disturb := range map[string]func(w *redistest.Wire, match ...string) *redistest.Fault{
			"reply lost": (*redistest.Wire).LoseReply,
			"withheld":   (*redistest.Wire).Withhold,
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
					wire, c, other := warmReplicas(t, s)
					tick := lockmw.Every(time.Hour)
					faults := []*redistest.Fault{disturb(wire, tickScript(name)), disturb(wire, tickScript(name))}
					runs := 0
					ran, err := lockmw.Once(t.Context(), c, jobKey, tick, func(context.Context) error {
						runs++
						return nil
					})
					if !ran || err != nil || runs != 1 {
						t.Errorf("Once: %t, %v after %d runs", ran, err, runs)
					}
					for _, f := range faults {
						<-f.Caught()
						if how == "withheld" {
							if _, err := f.Send(t.Context()); err != nil { // now it arrives
								t.Error(err)
							}
							f.Break()
						}
					}
					wantElsewhere(t, other, tick)
					key := fmt.Sprintf("lockmw:{%s}:tick:%d", jobKey, tick.At.UnixMilli())
					if noted := s.NewClient(t).Get(t.Context(), key).Val(); !strings.HasPrefix(noted, "ran ") || strings.Count(noted, " ") != 1 {
						t.Errorf("it is noted %q", noted)
					}
				})
			})
		}
	}
}

// The mark is the last word, even if it comes late: what matters is that a run came to its end.
func TestAMarkThatComesLateCountsUnlessAnotherReplicaHasBegun(t *testing.T) {
	for _, another := range []bool{false, true} {
		t.Run(fmt.Sprint(another), func(t *testing.T) {
			usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
				wire := s.NewWire()
				c, other := usertest.ClientOf(t, s.NewClient(t, wire.Use)), usertest.Client(t, s)
				tick := lockmw.Every(time.Hour)
				time.AfterFunc(30*time.Second, wire.Restore)
				var wg sync.WaitGroup
				ran, err := lockmw.Once(t.Context(), c, jobKey, tick, func(context.Context) error {
					wire.Cut() // for longer than the lease
					if another {
						wg.Go(func() {
							wantRun(t, "the other one", other, tick)
						})
					}
					return nil
				})
				wg.Wait()
				if !ran || errors.Is(err, lockmw.ErrLost) != another || !another && err != nil {
					t.Errorf("Once: %t, %v", ran, err)
				}
				wantElsewhere(t, other, tick)
			})
		})
	}
}

// Nobody runs a tick again because it cannot be marked.
func TestATickThatCannotBeMarkedKeepsItsLock(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		c, other, admin := usertest.Client(t, s), usertest.Client(t, s), s.NewClient(t)
		tick := lockmw.Every(time.Hour)
		key := fmt.Sprintf("lockmw:{%s}:tick:%d", jobKey, tick.At.UnixMilli())
		var wg sync.WaitGroup
		began := time.Now()
		ran, err := lockmw.Once(t.Context(), c, jobKey, tick, func(context.Context) error {
			admin.Del(t.Context(), key)
			admin.LPush(t.Context(), key, "theirs")
			wg.Go(func() {
				ran, err := lockmw.Once(t.Context(), other, jobKey, tick, nothing(t))
				if ran || !errors.Is(err, lockmw.ErrBusy) && !errors.Is(err, lockmw.ErrWrongType) {
					t.Errorf("the other one: %t, %v, want ErrBusy", ran, err)
				}
				if time.Since(began) < time.Minute {
					t.Errorf("it had the lock %v after the tick", time.Since(began))
				}
			})
			synctest.Wait()
			return io.EOF
		})
		if !ran || !errors.Is(err, lockmw.ErrWrongType) || !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "could not be recorded") {
			t.Errorf("Once: %t, %v, want ErrWrongType and what run returned", ran, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it returned after %v", took)
		}
		wg.Wait()
		wantRun(t, "the next tick", other, lockmw.Tick{At: tick.At.Add(90 * time.Second)})
	})
}
