package ticks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// Waiting calls have not returned when the holder dies.
func TestAKilledReplicaIsSucceededOnce(t *testing.T) {
	t.Parallel()
	s, first, others := underWay(t, 2)
	second, third, late := others[0], others[1], startReplica(t, s, 0)
	killed := time.Now()
	first.Kill()
	second.wants(report{Event: "runs"})
	if took := time.Since(killed); took > patience {
		t.Errorf("the next run began after %v, the lease was %v", took, realLease)
	}
	second.Kill()
	third.wants(report{Event: "returned", Err: "lock_unfinished"})
	late.calls()
	late.wants(report{Event: "returned", Err: "lock_unfinished"})
}

func TestAReplicaThatFollowsAKilledOneMarksTheTick(t *testing.T) {
	t.Parallel()
	_, first, others := underWay(t, 2)
	second, third := others[0], others[1]
	first.Kill()
	second.wants(report{Event: "runs"})
	second.finishes()
	second.wants(report{Event: "returned", Ran: true})
	third.wants(report{Event: "returned"})
}

// A stopped process cannot notice that its lease has expired. When it resumes, its context has ended.
func TestAStoppedReplicaResumesWithoutItsLock(t *testing.T) {
	t.Parallel()
	s, first, others := underWay(t, 1)
	second, third := others[0], startReplica(t, s, 0)
	first.Pause(t)
	second.wants(report{Event: "runs"})
	first.Resume(t)
	first.wants(report{Event: "is cut short"})
	first.wants(report{Event: "returned", Ran: true, Err: "lock_lost"})
	second.finishes() // its run is still the only one
	second.wants(report{Event: "returned", Ran: true})
	third.calls()
	third.wants(report{Event: "returned"})
}

func TestReplicasWhoseClocksDiffer(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	skewed := []*replica{startReplica(t, s, -time.Second), startReplica(t, s, 0), startReplica(t, s, time.Second)}
	off := startReplica(t, s, 24*time.Hour)
	runs := 0
	for _, r := range skewed {
		r.calls()
		got := r.says()
		if got.Event == "runs" {
			runs++
			r.finishes()
			got = r.says()
		}
		if got.Event != "returned" || got.Err != "" {
			t.Errorf("a replica reports %+v", got)
		}
	}
	off.calls()
	off.wants(report{Event: "returned", Err: "lock_clock_off"})
	if runs != 1 {
		t.Errorf("%d runs, want 1", runs)
	}
}

// Each tick runs once while answers are lost and commands come late, and every replica learns of it.
func TestEachTickIsRunOnceWhateverAnswersAreLost(t *testing.T) {
	t.Parallel()
	const replicas = 4
	ticks := 20
	if suite.Full() {
		ticks = 60
	}
	s := redistest.Redis(t)
	scripts := script.NewSet(script.DefaultParams(true)).All()
	wires := make([]*redistest.Wire, replicas)
	clients := make([]*lockmw.Client, replicas)
	for i := range clients {
		wires[i] = s.NewWire()
		clients[i] = usertest.ClientOf(t, s.NewClient(t, wires[i].Use))
	}
	first := time.Now()
	for n := range ticks {
		for _, w := range wires {
			for _, name := range []string{"acquire", "begin", "mark", "release"} {
				if rand.N(3) == 0 {
					w.LoseReply(scripts[name].SHA)
				}
			}
		}
		var mu sync.Mutex
		runs, here := 0, 0
		var wg sync.WaitGroup
		for i, c := range clients {
			wg.Go(func() {
				tick := lockmw.Tick{At: first.Add(time.Duration(n) * time.Millisecond), Within: 10 * time.Minute}
				ran, err := lockmw.Once(t.Context(), c, jobKey, tick, func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					runs++
					return nil
				})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("tick %d, replica %d: %v", n, i, err)
				}
				if ran {
					here++
				}
			})
		}
		wg.Wait()
		if runs != 1 || here != 1 {
			t.Errorf("tick %d ran %d times, as reported by %d replicas", n, runs, here)
		}
	}
	noted := s.NewClient(t).Keys(t.Context(), fmt.Sprintf("lockmw:{%s}:tick:*", jobKey)).Val()
	if len(noted) != ticks {
		t.Errorf("%d ticks are noted, want %d", len(noted), ticks)
	}
}
