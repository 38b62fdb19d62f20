package deadlocks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
)

// deadlock starts processes each of which holds a key and waits for the next one's. It checks that one of them fails with the
// whole cycle in its error, and that the others get their locks.
func deadlock(t *testing.T, keys []string, spec func(i int) childSpec) (victim int) {
	t.Helper()
	n := len(keys)
	all := make([]*child, n)
	for i := range all {
		all[i] = spec(i).start(t)
		all[i].locks(keys[i])
	}
	for i, c := range all {
		c.Order(keys[(i+1)%n])
	}
	closed := time.Now()
	victim = -1
	type answer struct {
		i int
		r report
	}
	answers := make(chan answer, n)
	for i, c := range all {
		go func() { answers <- answer{i, c.report()} }()
	}
	for range all {
		a := <-answers
		switch {
		case a.r.Deadlock != nil && victim < 0:
			victim = a.i
			t.Logf("detected %v after the cycle was closed", time.Since(closed).Round(time.Millisecond))
			check(t, keys, a.i, a.r)
		case a.r.Err != "":
			t.Errorf("process %d: %s", a.i, a.r.Err)
		default:
			all[a.i].Order("") // so that the previous process gets it
			if r := all[a.i].report(); r.Err != "" {
				t.Errorf("process %d: %s", a.i, r.Err)
			}
		}
	}
	if victim < 0 {
		t.Error("no deadlock was detected")
	}
	return victim
}

func check(t *testing.T, keys []string, victim int, r report) {
	t.Helper()
	n := len(keys)
	if len(r.Deadlock.Circle) != n {
		t.Fatalf("%s", r.Err)
	}
	processes := make(map[string]bool)
	for i, s := range r.Deadlock.Circle {
		has, wants := keys[(victim+i)%n], keys[(victim+i+1)%n]
		if s.Has != has || s.HasLabel != "wants:"+has || s.Wants != wants || s.Label != "wants:"+wants {
			t.Errorf("step %d is %+v", i, s)
		}
		processes[s.Process] = true
	}
	if len(processes) != n {
		t.Errorf("%d processes, want %d", len(processes), n)
	}
}

func detecting(s *redistest.Server) childSpec {
	return childSpec{Addrs: []string{s.Addr()}, Detect: time.Second, Lease: 30 * time.Second}
}

func TestADeadlockOfProcessesIsDetected(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	for _, n := range []int{2, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			var keys []string
			for i := range n {
				keys = append(keys, fmt.Sprintf("cycle-%d-%d", n, i))
			}
			deadlock(t, keys, func(int) childSpec { return detecting(s) })
		})
	}
}

// A bridge takes the lock of lockmw before the old key, so the cycle consists of locks of lockmw.
func TestADeadlockOfBridgesIsDetected(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	for name, bridges := range map[string]int{"bridges": 2, "mixed": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deadlock(t, []string{name + "-0", name + "-1"}, func(i int) childSpec {
				spec := detecting(s)
				spec.Bridge = i < bridges
				return spec
			})
		})
	}
}

// In a Cluster each key has its own inbox, at several nodes. Only the first process runs detection, so the others have to
// answer without it.
func TestADeadlockOfProcessesIsDetectedInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t, 3, 0)
	var keys []string
	for i := range 3 {
		keys = append(keys, cluster.KeyAt(i))
	}
	victim := deadlock(t, keys, func(i int) childSpec {
		s := childSpec{Addrs: cluster.Addrs(), Cluster: true, Lease: 30 * time.Second}
		if i == 0 {
			s.Detect = time.Second
		}
		return s
	})
	if victim > 0 {
		t.Errorf("process %d failed, but does not run detection", victim)
	}
}

// A killed process does not answer, and its lease expires.
func TestAKilledProcessCausesNoDeadlock(t *testing.T) {
	t.Parallel()
	spec := detecting(redistest.Redis(t))
	spec.Lease = 3 * time.Second
	killed, lives := spec.start(t), spec.start(t)
	killed.locks("killed")
	lives.locks("lives")
	killed.Order("lives")
	awaitWaiter(t, spec, "lives")
	killed.Kill()
	lives.locks("killed")
}

// awaitWaiter waits until a ticket for the key is queued.
func awaitWaiter(t *testing.T, spec childSpec, key string) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: spec.Addrs[0]})
	t.Cleanup(func() { _ = rdb.Close() })
	usertest.Eventually(t, "a ticket for "+key, time.Minute, func() bool {
		return rdb.ZCard(t.Context(), "lockmw:{"+key+"}:queue").Val() > 0
	})
}
