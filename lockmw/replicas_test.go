package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A succession is a master and the replica that takes its place.
type succession struct {
	*testing.T
	master, replica *redistest.Server
	link            *redistest.Proxy // between them
}

func newSuccession(t *testing.T) *succession {
	t.Helper()
	s := &succession{T: t, master: redistest.Redis(t, "--repl-diskless-sync-delay", "0")}
	s.link = s.master.NewProxy(t)
	host, port, err := net.SplitHostPort(s.link.Addr())
	if err != nil {
		t.Fatal(err)
	}
	s.replica = redistest.Redis(t, "--repl-diskless-sync-delay", "0", "--replicaof", host, port)
	deadline := time.Now().Add(time.Minute)
	for info := ""; !strings.Contains(info, "state=online"); {
		if time.Now().After(deadline) {
			t.Fatalf("the replica does not follow the master: %s", info)
		}
		info = s.master.NewClient(t).Info(t.Context(), "replication").Val()
	}
	return s
}

// succeed has the replica take the place of the master, which dies.
func (s *succession) succeed() {
	s.Helper()
	s.master.Kill()
	s.promote(s.replica)
}

// promote makes a server a master.
func (s *succession) promote(server *redistest.Server) {
	s.Helper()
	if err := server.NewClient(s.T).ReplicaOf(s.Context(), "NO", "ONE").Err(); err != nil {
		s.Fatal(err)
	}
}

const successionKeys = 200

// eachKey calls f for each key at the same time.
func eachKey(f func(i int, key string)) {
	var wg sync.WaitGroup
	for i := range successionKeys {
		wg.Go(func() { f(i, fmt.Sprintf("item:%d", i)) })
	}
	wg.Wait()
}

// hold takes a key, as long as that takes. It returns nil if it could not.
func hold(t *testing.T, locks *lockmw.Client, key string) *lockmw.Hold {
	t.Helper()
	_, h, err := locks.Lock(context.WithoutCancel(t.Context()), key, lockmw.WithWait(time.Minute))
	if err != nil {
		t.Errorf("Lock of %s: %v", key, err)
	}
	return h
}

// holdAll takes all keys.
func holdAll(t *testing.T, locks *lockmw.Client) (holds [successionKeys]*lockmw.Hold) {
	t.Helper()
	eachKey(func(i int, key string) { holds[i] = hold(t, locks, key) })
	if t.Failed() {
		t.FailNow()
	}
	return holds
}

// takeFree takes those keys that are free, and returns the holds, nil of the others.
func takeFree(t *testing.T, locks *lockmw.Client) (holds [successionKeys]*lockmw.Hold) {
	t.Helper()
	eachKey(func(i int, key string) {
		_, h, err := locks.TryLock(context.WithoutCancel(t.Context()), key)
		if err != nil && !errors.Is(err, lockmw.ErrBusy) {
			t.Errorf("TryLock of %s: %v", key, err)
		}
		holds[i] = h
	})
	return holds
}

// takeFromHolders makes locks take all keys as soon as possible. It returns how many were taken before the deadlines of the
// holds.
func takeFromHolders(t *testing.T, locks *lockmw.Client, holds [successionKeys]*lockmw.Hold) int {
	t.Helper()
	var early atomic.Int32
	eachKey(func(i int, key string) {
		h := hold(t, locks, key)
		if h == nil {
			return
		}
		if time.Now().Before(holds[i].Deadline()) {
			early.Add(1)
		}
		if err := h.Unlock(); err != nil {
			t.Errorf("Unlock of %s: %v", key, err)
		}
	})
	return int(early.Load())
}

// twice counts the keys that are in both.
func twice(a, b [successionKeys]*lockmw.Hold) (n int) {
	for i := range a {
		if a[i] != nil && b[i] != nil {
			n++
		}
	}
	return n
}

// A master dies with grants that its replica has not got. Half of the keys are taken before the replica lags.
func TestNoGrantThatReplicasHaveAcknowledgedIsLostInAFailover(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		opts []lockmw.ClientOption
		want func(taken, twice int) bool
	}{
		{"without WithReplicas", nil, func(taken, twice int) bool { return taken == successionKeys && twice == successionKeys/2 }},
		{"WithReplicas", []lockmw.ClientOption{lockmw.WithReplicas(1, 200*time.Millisecond)},
			func(taken, twice int) bool { return taken == successionKeys/2 && twice == 0 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSuccession(t)
			before := usertest.Abandoned(t, s.master.NewClient(t), test.opts...)
			var held [successionKeys]*lockmw.Hold
			eachKey(func(i int, key string) {
				if i%2 == 0 {
					held[i] = hold(t, before, key)
				}
			})
			if test.opts == nil {
				s.await()
			}
			s.link.Swallow()
			eachKey(func(i int, key string) {
				if i%2 == 0 {
					return
				}
				var err error
				_, held[i], err = before.TryLock(context.WithoutCancel(t.Context()), key)
				if err != nil && !errors.Is(err, lockmw.ErrUnavailable) {
					t.Errorf("TryLock of %s: %v", key, err)
				}
			})
			s.succeed()
			after := takeFree(t, usertest.Abandoned(t, s.replica.NewClient(t)))
			var taken int
			for _, h := range held {
				if h != nil {
					taken++
				}
			}
			if n := twice(held, after); !test.want(taken, n) {
				t.Errorf("of %d keys %d were taken before the master died, and %d of these again after it", successionKeys, taken, n)
			}
		})
	}
}

// await returns when the replica has all that the master has.
func (s *succession) await() {
	s.Helper()
	rdb := s.master.NewClient(s.T)
	err := rdb.Watch(s.Context(), func(tx *redis.Tx) error { // on one connection
		if err := tx.Set(s.Context(), "awaited", 1, 0).Err(); err != nil {
			return err
		}
		have, err := tx.Wait(s.Context(), 1, time.Minute).Result()
		if err == nil && have < 1 {
			err = errors.New("the replica lags")
		}
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
}

// Grants continue while the master dies: a key that was granted is also held at the next master.
func TestNoGrantIsLostByAMasterThatDiesAmongGrants(t *testing.T) {
	t.Parallel()
	s := newSuccession(t)
	before := usertest.Abandoned(t, s.master.NewClient(t), lockmw.WithReplicas(1, 200*time.Millisecond))
	var held [successionKeys]*lockmw.Hold
	begun := make(chan struct{}, successionKeys)
	var wg sync.WaitGroup
	wg.Go(func() {
		eachKey(func(i int, key string) {
			_, held[i], _ = before.TryLock(context.WithoutCancel(t.Context()), key)
			begun <- struct{}{}
		})
	})
	for range successionKeys / 4 {
		<-begun
	}
	s.succeed()
	wg.Wait()
	after := takeFree(t, usertest.Abandoned(t, s.replica.NewClient(t)))
	if n := twice(held, after); n > 0 {
		t.Errorf("%d keys were taken before the master died, and again after it", n)
	}
}

// A replica that lags has not got the renewals: a hold whose deadline these have moved is had by another at the next master.
func TestARenewalThatReplicasHaveNotAcknowledgedDoesNotCount(t *testing.T) {
	t.Parallel()
	lease := 6 * time.Second
	if suite.Full() {
		lease = 12 * time.Second // half of it is for the next one on a busy machine
	}
	for _, with := range []bool{false, true} {
		t.Run(fmt.Sprintf("WithReplicas %t", with), func(t *testing.T) {
			t.Parallel()
			s := newSuccession(t)
			opts := []lockmw.ClientOption{lockmw.WithLease(lease)}
			if with {
				opts = append(opts, lockmw.WithReplicas(1, 200*time.Millisecond))
			}
			held := holdAll(t, usertest.Abandoned(t, s.master.NewClient(t), opts...))
			s.await()
			s.link.Swallow()
			taken := time.Now()
			rdb := s.master.NewClient(t)
			for i := range held {
				usertest.Eventually(t, "the master has renewed all", time.Minute, func() bool {
					left := rdb.PTTL(t.Context(), fmt.Sprintf("lockmw:{item:%d}", i)).Val()
					return time.Now().Add(left).After(taken.Add(lease + lease/4))
				})
			}
			s.succeed()
			after := usertest.Abandoned(t, s.replica.NewClient(t))
			early := takeFromHolders(t, after, held)
			if with && early > 0 || !with && early == 0 {
				t.Errorf("%d of %d keys were had by another before the deadline of the holder", early, successionKeys)
			}
		})
	}
}

func TestReplicasThatNobodyHasAreMissed(t *testing.T) {
	locks := usertest.Client(t, redistest.Redis(t), lockmw.WithReplicas(2, 10*time.Millisecond))
	_, _, err := locks.TryLock(t.Context(), "item")
	if !errors.Is(err, lockmw.ErrUnavailable) || !strings.Contains(err.Error(), "0 of 2 replicas") {
		t.Errorf("got %v", err)
	}
}

func TestWithReplicasRefusesWhatCannotWork(t *testing.T) {
	rdb := redistest.Mini(t).NewClient(t)
	for _, test := range []struct {
		n       int
		timeout time.Duration
	}{{0, time.Second}, {-1, time.Second}, {101, time.Second}, {1, 0}, {1, time.Microsecond}, {1, 3 * time.Second}} {
		_, err := lockmw.New(rdb, lockmw.WithReplicas(test.n, test.timeout))
		if !errors.Is(err, lockmw.ErrInvalidOption) {
			t.Errorf("WithReplicas(%d, %v): %v", test.n, test.timeout, err)
		}
	}
}
