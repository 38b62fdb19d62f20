package migration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/go/internal/process"
	"github.com/lockmw/go/internal/test/suite"
)

// A mixture is processes of several stages that compete, while processes are paused and killed, and the servers have a fault.
type mixture struct {
	t     *testing.T
	lib   *library
	place *place
	lossy span // when the fault may have lost locks

	mu    sync.Mutex
	holds []report       // that have ended
	turns map[string]int // by stage
}

// A member is a process of a mixture.
type member struct {
	*process.Child
	stage  string
	killed atomic.Pointer[time.Time]
	read   chan struct{} // closed when all its reports are read
}

// play runs the mixture and returns the overlaps of its holds.
func play(t *testing.T, at *place, lib *library, stages ...string) (overlaps []string) {
	m := &mixture{t: t, lib: lib, place: at, turns: make(map[string]int)}
	members := make([]*member, 0, 2*len(stages))
	for _, stage := range slices.Concat(stages, stages) {
		members = append(members, m.start(stage))
	}
	for i := range members { // each is paused and then killed once, and the servers have their fault in between
		m.await(members, 2)
		if victim := members[i]; victim.stage != old || !lib.unpaused {
			if err := victim.Pause(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(rand.N(lease * 3 / 2))
			if err := victim.Resume(); err != nil {
				t.Fatal(err)
			}
		}
		if i == 1 {
			m.lossy.from = time.Now()
			at.fault(t)
			m.lossy.to = time.Now()
		}
		m.await(members, 2)
		members[i].kill()
		members[i] = m.start(members[i].stage)
	}
	m.await(members, 5)
	for _, p := range members {
		p.stop()
	}
	for _, stage := range stages {
		if m.turns[stage] == 0 {
			t.Errorf("no process of stage %q has had the lock: %v", stage, m.turns)
		}
	}
	t.Logf("%s: turns %v", lib.name, m.turns)
	return m.overlaps()
}

// start starts a process and reads its reports.
func (m *mixture) start(stage string) *member {
	c, err := process.StartChild(context.Background(), spec{m.lib.name, stage, m.place.address}, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	p := &member{Child: c, stage: stage, read: make(chan struct{})}
	m.t.Cleanup(p.kill)
	go func() {
		defer close(p.read)
		var open *report
		for {
			var r report
			if c.Reports.Decode(&r) != nil {
				break
			}
			if open = &r; !r.Exit.IsZero() {
				open = nil
				m.end(stage, r)
			}
		}
		if killed := p.killed.Load(); open != nil && killed != nil {
			open.Exit = *killed
			m.end(stage, *open)
		}
	}()
	return p
}

func (m *mixture) end(stage string, r report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holds = append(m.holds, r)
	m.turns[stage]++
}

// await waits until the processes have had n more turns for each of them.
func (m *mixture) await(members []*member, n int) {
	m.t.Helper()
	count := func() int {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.holds)
	}
	want := count() + n*len(members)
	for start := time.Now(); count() < want; time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > 2*time.Minute {
			m.t.Fatalf("the processes make no progress: %v", m.turns)
		}
	}
}

// kill ends the process in the middle of its work.
func (p *member) kill() {
	now := time.Now()
	p.killed.CompareAndSwap(nil, &now)
	p.Kill()
	p.stop()
}

// stop ends the process after its present turn.
func (p *member) stop() {
	p.CloseOrders()
	<-p.read
	p.CloseReports()
	p.Kill()
}

// overlaps returns the pairs of holds of a key that were exclusive at the same time. It leaves out holds that a fault may have
// ended without a trace, and which the next holder therefore could not respect: no lock in Redis can.
func (m *mixture) overlaps() (found []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.SortFunc(m.holds, func(a, b report) int { return a.Enter.Compare(b.Enter) })
	last := make(map[string]time.Time) // until when the key was held
	for _, r := range m.holds {
		if !r.Valid.IsZero() && r.Valid.Before(r.Exit) {
			r.Exit = r.Valid
		}
		if m.place.loses && m.lossy.hit(r) {
			continue
		}
		if by := last[r.Key].Sub(r.Enter); by > 0 && r.Exit.After(r.Enter) {
			found = append(found, fmt.Sprintf("two holders of %s for %v", r.Key, by))
		}
		if r.Exit.After(last[r.Key]) {
			last[r.Key] = r.Exit
		}
	}
	return found
}

func TestNoMixtureOfTheTwoDeploymentsHasTwoHolders(t *testing.T) {
	t.Parallel()
	for i := range libraries {
		if i > 0 && !suite.Full() {
			break // ten seconds for each library
		}
		bothDeployments(t, oneServer, &libraries[i])
	}
}

func TestNoMixtureOnAClusterHasTwoHolders(t *testing.T) {
	suite.NeedsFull(t, "it takes a minute for each library")
	t.Parallel()
	for i := range libraries {
		bothDeployments(t, aCluster, &libraries[i])
	}
}

func TestNoMixtureWithSentinelHasTwoHolders(t *testing.T) {
	suite.NeedsFull(t, "it takes a minute for each library")
	t.Parallel()
	for i := range libraries {
		bothDeployments(t, aSentinel, &libraries[i])
	}
}

func TestNoMixtureOverSeveralServersHasTwoHolders(t *testing.T) {
	suite.NeedsFull(t, "it takes a minute")
	t.Parallel()
	for _, n := range []int{3, 5} {
		for _, stages := range deployments {
			t.Run(fmt.Sprint(n, stages), func(t *testing.T) {
				t.Parallel()
				hasNoOverlap(t, independent(t, n), &libraries[0], stages)
			})
		}
	}
}

// The stages whose processes run at the same time during the first deployment, and during the second.
var deployments = [][]string{{old, both}, {both, done}}

// bothDeployments plays both deployments of a library, next to other libraries with servers of their own.
func bothDeployments(t *testing.T, servers func(testing.TB) *place, lib *library) {
	t.Run(lib.name, func(t *testing.T) {
		t.Parallel()
		at := servers(t)
		for _, stages := range deployments {
			t.Run(fmt.Sprint(stages), func(t *testing.T) { hasNoOverlap(t, at, lib, stages) })
		}
	})
}

func hasNoOverlap(t *testing.T, at *place, lib *library, stages []string) {
	for _, o := range play(t, at, lib, stages...) {
		t.Error(o)
	}
}

// Without the bridge two processes do hold the lock: so the test above would notice it.
func TestADirectSwitchHasTwoHolders(t *testing.T) {
	t.Parallel()
	makers := []func(testing.TB) *place{oneServer, aCluster, aSentinel}
	for i, maker := range makers {
		if i > 0 && !suite.Full() {
			break
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			if len(play(t, maker(t), &libraries[0], old, done)) == 0 {
				t.Error("no overlap is found")
			}
		})
	}
}
