package several_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/locktest"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/judge"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

func TestMain(m *testing.M) { locktest.Main(m) }

// kinds are what the faults meet, side by side.
var kinds = map[string]func(c *lockmw.Client) lockmw.Locker{
	"plain": func(c *lockmw.Client) lockmw.Locker { return c },
	"fair":  func(c *lockmw.Client) lockmw.Locker { return fairlock.New(c) },
	"write": func(c *lockmw.Client) lockmw.Locker { return rwlock.New(c) },
}

// crowds contend for a key by locks of each kind, from several Clients. Beside them holds of each kind are kept.
type crowds struct {
	e     *env.Env
	keys  map[string]string // of each kind
	kept  map[string]*judge.Held
	rival *env.Client // of those who keep them
	stop  []func()
}

// gather starts crowds on keys that a master of c has.
func gather(t *testing.T, c *redistest.Cluster, master int) *crowds {
	t.Helper()
	e := env.New(t, env.Config{
		Mode: env.ClientMode, Several: true,
		Server: func(testing.TB) redistest.Deployment { return c },
	})
	all := &crowds{e: e, keys: make(map[string]string), kept: make(map[string]*judge.Held), rival: e.Client()}
	keyAt := func(kind string) string {
		for {
			if key := e.Key(kind); c.Owner(e.Server.RedisKey(key)) == master {
				return key
			}
		}
	}
	keeper := e.Client()
	for kind, wrap := range kinds {
		_, all.kept[kind] = e.Lock(wrap(keeper.Redis), keyAt(kind), lockmw.WithLease(e.Ample(time.Second)))
		key := keyAt(kind)
		all.keys[kind] = key
		for range 3 {
			l := wrap(e.Client(lockmw.WithUnlockTimeout(env.Patience)).Redis)
			all.stop = append(all.stop, e.Crowd(l, key, 3, time.Millisecond))
		}
	}
	return all
}

// goOn waits until each crowd has had its lock more often.
func (all *crowds) goOn(after string) {
	all.e.TB.Helper()
	for kind, key := range all.keys {
		enough := all.e.Rec.Grants(key) + 50
		all.e.Eventually(env.Patience, func() string {
			if all.e.Rec.Grants(key) < enough && !all.e.T.Failed() {
				return after + " nobody gets the lock: " + kind
			}
			return ""
		})
	}
}

// areKept checks that nobody else gets what is kept.
func (all *crowds) areKept() {
	all.e.TB.Helper()
	for kind, held := range all.kept {
		all.e.Busy(kinds[kind](all.rival.Redis), held.Key())
	}
}

// disperse ends the crowds, and checks what they were promised.
func (all *crowds) disperse() {
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

// What moves with all data, or is taken over with them, loses no lock: nothing is seen of it but a delay.
func TestLocksOutliveChangesOfTheirNode(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	c := redistest.NewCluster(t, 2, 1)
	all := gather(t, c, 0)
	all.goOn("to begin with")
	for kind, key := range all.keys {
		c.BeginMove(all.e.Server.RedisKey(key))
		all.e.Pass(50 * time.Millisecond) // of contention in the midst of the move
		c.FinishMove(all.e.Server.RedisKey(key))
		c.Move(all.e.Server.RedisKey(all.kept[kind].Key()))
		all.goOn("after the move of " + kind)
	}
	all.areKept()
	c.Depose(all.e.Server.RedisKey(all.keys["plain"]))
	all.goOn("after a planned fail-over")
	all.areKept()
	all.disperse()
}
