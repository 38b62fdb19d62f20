package several_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/locktest"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/fault"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

func TestMain(m *testing.M) { locktest.Main(m) }

// kinds are the kinds of locks under test; all run in parallel.
var kinds = map[string]func(c *lockmw.Client) lockmw.Locker{
	"plain": func(c *lockmw.Client) lockmw.Locker { return c },
	"fair":  func(c *lockmw.Client) lockmw.Locker { return fairlock.New(c) },
	"write": func(c *lockmw.Client) lockmw.Locker { return rwlock.New(c) },
}

// crowds contend for one key per kind of lock, from several Clients. In parallel, one hold of each kind is kept.
type crowds struct {
	e     *env.Env
	keys  map[string]string // by kind
	kept  map[string]*recording.Held
	rival *env.Client // contends with kept
	stop  []func()
}

// startCrowds starts crowds on keys of one master. Kept holds have this lease.
func startCrowds(t *testing.T, start func(t *testing.T) replaceable, lease time.Duration, opts ...lockmw.ClientOption) (*crowds, replaceable) {
	t.Helper()
	e, servers := newEnv(t, start)
	master := servers.master(e.Server.RedisKey(e.Key("first")))
	opts = append(opts, lockmw.WithUnlockTimeout(env.Patience))
	all := &crowds{e: e, keys: make(map[string]string), kept: make(map[string]*recording.Held), rival: e.Client(opts...)}
	keyAt := func(kind string) string {
		for {
			if key := e.Key(kind); servers.master(e.Server.RedisKey(key)) == master {
				return key
			}
		}
	}
	keeper := e.Client(opts...)
	for kind, wrap := range kinds {
		_, all.kept[kind] = e.Lock(wrap(keeper.Redis), keyAt(kind), lockmw.WithLease(lease))
		key := keyAt(kind)
		all.keys[kind] = key
		for range 3 {
			l := wrap(e.Client(opts...).Redis)
			all.stop = append(all.stop, e.Crowd(l, key, 3, time.Millisecond))
		}
	}
	return all, servers
}

// awaitGrants waits until each key is granted 50 more times.
func (all *crowds) awaitGrants(after string) {
	all.e.TB.Helper()
	for kind, key := range all.keys {
		enough := all.e.Rec.Grants(key) + 50
		all.e.Eventually(env.Patience, func() string {
			if all.e.Rec.Grants(key) < enough && !all.e.T.Failed() {
				return after + ": no grants of kind " + kind
			}
			return ""
		})
	}
}

// checkKept checks that all kept locks are still held.
func (all *crowds) checkKept() {
	all.e.TB.Helper()
	for kind, held := range all.kept {
		all.e.Busy(kinds[kind](all.rival.Redis), held.Key())
	}
}

// awaitRenewals waits until all kept locks are renewed.
func (all *crowds) awaitRenewals(after string) {
	all.e.TB.Helper()
	for kind, held := range all.kept {
		before := held.Deadline()
		all.e.Eventually(env.Patience, func() string {
			if !held.Deadline().After(before) {
				return after + ": no renewal of kind " + kind
			}
			return ""
		})
	}
}

// finish stops the crowds and checks the guarantees.
func (all *crowds) finish() {
	all.e.TB.Helper()
	for _, held := range all.kept {
		all.e.Unlock(held.Ctx, held)
	}
	for _, stop := range all.stop {
		stop()
	}
	for _, v := range all.e.Rec.Violations() {
		all.e.T.Error(v)
	}
	all.e.Server.CheckClean()
}

// Moving slots and planned fail-overs lose no lock; they only delay calls.
func TestLocksSurviveSlotMovesAndFailOvers(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	var c *redistest.Cluster
	all, _ := startCrowds(t, func(t *testing.T) replaceable {
		c = redistest.NewCluster(t, 2, 1)
		return aCluster{c}
	}, 20*time.Second) // a fail-over pauses writes for up to 10 s
	all.awaitGrants("at the start")
	for kind, key := range all.keys {
		c.BeginMove(all.e.Server.RedisKey(key))
		all.e.Pass(50 * time.Millisecond) // contention during the move
		c.FinishMove(all.e.Server.RedisKey(key))
		c.Move(all.e.Server.RedisKey(all.kept[kind].Key()))
		all.awaitGrants("after the move of " + kind)
	}
	all.checkKept()
	c.Depose(all.e.Server.RedisKey(all.keys["plain"]))
	all.awaitGrants("after a planned fail-over")
	all.checkKept()
	all.awaitRenewals("after a planned fail-over")
	all.finish()
}

// Calls are linearizable while their slot moves between nodes, even if connections break.
func TestAHistoryDuringSlotMovesIsLinearizable(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	var c *redistest.Cluster
	e, _ := newEnv(t, func(t *testing.T) replaceable {
		c = redistest.NewCluster(t, 2, 0)
		return aCluster{c}
	})
	fault.Linearizability(e, func(key string) {
		at := e.Server.RedisKey(key)
		c.BeginMove(at)
		e.Pass(10 * time.Millisecond) // calls during the move
		c.FinishMove(at)
	})
}

// State that replicas acknowledged survives the loss of their master, however it fails.
func TestAcknowledgedHoldsSurviveTheLossOfTheirMaster(t *testing.T) {
	every := func(absence) bool { return true }
	onReplaced(t, every, func(t *testing.T, start func(t *testing.T) replaceable, how absence) {
		// On a busy machine a fail-over may need a second attempt, and with that 20 s more.
		all, servers := startCrowds(t, start, time.Minute, lockmw.WithReplicas(1, 100*time.Millisecond))
		all.awaitGrants("at the start")
		key := all.e.Server.RedisKey(all.keys["fair"])
		master := servers.master(key)
		how.takeDown(t, servers, master)
		servers.awaitPromoted(key, master)
		how.bringBack(t, servers, master) // as a replica, which WithReplicas needs
		all.awaitGrants("after the fail-over")
		all.checkKept()
		servers.AwaitSettled()
		all.finish()
	})
}
