package deadlocks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
)

// circle starts processes of which each has a key and wants the next one's, and checks that one of them is ended, with the whole
// circle in its error, and that the others get what they want.
func circle(t *testing.T, keys []string, spec func(i int) childSpec) (victim int) {
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
			t.Logf("found %v after the circle was closed", time.Since(closed).Round(time.Millisecond))
			check(t, keys, a.i, a.r)
		case a.r.Err != "":
			t.Errorf("process %d: %s", a.i, a.r.Err)
		default:
			all[a.i].Order("") // so that the one before gets it
			if r := all[a.i].report(); r.Err != "" {
				t.Errorf("process %d: %s", a.i, r.Err)
			}
		}
	}
	if victim < 0 {
		t.Error("there was no deadlock")
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

func TestProcessesInACircle(t *testing.T) {
	s := redistest.Redis(t)
	for _, n := range []int{2, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			var keys []string
			for i := range n {
				keys = append(keys, fmt.Sprintf("circle-%d-%d", n, i))
			}
			circle(t, keys, func(int) childSpec { return detecting(s) })
		})
	}
}

// In a Cluster keys have inboxes of their own, at several nodes. Only the first process looks, so that the others have to
// answer all the same.
func TestProcessesInACircleInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t, 3, 0)
	var keys []string
	for i := range 3 {
		keys = append(keys, cluster.KeyAt(i))
	}
	victim := circle(t, keys, func(i int) childSpec {
		s := childSpec{Addrs: cluster.Addrs(), Cluster: true, Lease: 30 * time.Second}
		if i == 0 {
			s.Detect = time.Second
		}
		return s
	})
	if victim > 0 {
		t.Errorf("process %d is ended, which does not detect deadlocks", victim)
	}
}

// Nobody answers for a process that was killed, and its lease ends.
func TestAKilledProcessIsNoDeadlock(t *testing.T) {
	t.Parallel()
	spec := detecting(redistest.Redis(t))
	spec.Lease = 5 * time.Second
	killed, lives := spec.start(t), spec.start(t)
	killed.locks("killed")
	lives.locks("lives")
	killed.Order("lives")
	awaitWaiter(t, spec, "lives")
	killed.Kill()
	lives.locks("killed")
}

// awaitWaiter waits until somebody waits for a key.
func awaitWaiter(t *testing.T, spec childSpec, key string) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: spec.Addrs[0]})
	t.Cleanup(func() { _ = rdb.Close() })
	usertest.Eventually(t, "somebody waits for "+key, time.Minute, func() bool {
		return rdb.ZCard(t.Context(), "lockmw:{"+key+"}:queue").Val() > 0
	})
}
