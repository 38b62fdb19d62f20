package script_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/transport"
)

// locks are three locks on one server. All ids of one execution have the same name.
type locks []*scripttest.Driver

func onLocks(t *testing.T, test func(l locks)) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) { test(newLocks(t, s, t.Name())) })
}

func newLocks(t *testing.T, s *redistest.Server, name string) locks {
	l := make(locks, 3)
	for i := range l {
		l[i] = scripttest.New(t, s.NewClient(t), fmt.Sprintf("%s:%d", name, i))
		l[i].Tidy = true
	}
	return l
}

func (l locks) ids(id string) []script.LockID {
	all := make([]script.LockID, len(l))
	for i, d := range l {
		all[i] = script.LockID{Keys: d.Keys, ID: scripttest.ID(id)}
	}
	return all
}

func (l locks) acquires(id string) *script.AcquireAll {
	return &script.AcquireAll{
		Locks: l.ids(id), Lease: scripttest.Lease, Info: script.HolderInfo{Owner: "owner-" + id}, Inbox: l[0].Inbox(id),
	}
}

// acquire runs acquire_all.lua, and returns the grants.
func (l locks) acquire(id string) []script.Grant {
	l[0].Helper()
	grants, err := script.AcquireAllAnswer(l[0].Send(l.acquires(id)), len(l))
	if err != nil {
		l[0].Fatal(err)
	}
	return grants
}

func (l locks) wantHeld(what, id string) (token int64) {
	l[0].Helper()
	grants := l.acquire(id)
	if grants == nil {
		l[0].Fatalf("%s: refused", what)
	}
	for i, d := range l {
		d.WantHolder(id)
		if g := grants[i]; g.Token != d.Token() || g.Tokens != 1 || g.Token != grants[0].Token {
			d.Errorf("%s: %+v, the server has %d", what, g, d.Token())
		}
	}
	return grants[0].Token
}

// wantRefused checks that nothing is taken, and nothing written.
func (l locks) wantRefused(what, id string) {
	l[0].Helper()
	before := l.look()
	if grants := l.acquire(id); grants != nil {
		l[0].Errorf("%s: granted %v", what, grants)
	}
	l.wantSame(what, before)
}

func (l locks) look() (all []*scripttest.Snapshot) {
	for _, d := range l {
		all = append(all, d.Look())
	}
	return all
}

func (l locks) wantSame(what string, before []*scripttest.Snapshot) {
	l[0].Helper()
	for i, after := range l.look() {
		for name, part := range after.Parts() {
			if !part.Same(before[i].Parts()[name]) {
				l[i].Errorf("%s: lock %d: the %s is %v, and was %v", what, i, name, part, before[i].Parts()[name])
			}
		}
	}
}

func (l locks) cancel(id string) {
	for _, d := range l {
		d.Cancel(id)
	}
}

func (l locks) wantNobody() {
	l[0].Helper()
	for _, d := range l {
		d.WantHolder("")
	}
}

func TestLocksAreTakenTogetherOrNotAtAll(t *testing.T) {
	onLocks(t, func(l locks) {
		earlier := int64(0)
		for _, d := range l {
			earlier = max(earlier, d.Lock("z1").Grant.Token)
			d.Release("z1")
		}
		if token := l.wantHeld("free", "a1"); token <= earlier {
			t.Errorf("token %d after %d", token, earlier)
		}
		l.wantRefused("held by another", "b1")
		l.cancel("a1")

		l[1].Lock("h1")
		l.wantRefused("one is held", "b1")
		l[1].Lock("w1")
		l[1].Redis.Del(t.Context(), l[1].Keys.Holder())
		l.wantRefused("one is waited for", "b1")
		l[1].Cancel("w1")

		l[2].Read("r1")
		l.wantRefused("one is read", "b1")
		l[2].Release("r1")

		l[2].Cancel("b1")
		l.wantRefused("one id is over", "b1")
		l.wantHeld("ids that live", "c1")
		l.cancel("c1")

		l[0].Redis.Set(t.Context(), l[0].Keys.Holder(), "a string", 0)
		l[0].Untidy(func() { l.wantRefused("somebody else's key", "d1") })
		l[0].Redis.Del(t.Context(), l[0].Keys.Holder())
		l.wantHeld("all are free again", "d1")
	})
}

func TestARepeatedTripIsAnsweredTheSame(t *testing.T) {
	onLocks(t, func(l locks) {
		token := l.wantHeld("first", "a1")
		l[1].Redis.PExpire(t.Context(), l[1].Keys.Holder(), scripttest.Lease/3)
		if again := l.wantHeld("repeated", "a1"); again != token {
			t.Errorf("token %d, and then %d", token, again)
		}
		if ttl := l[1].Redis.PTTL(t.Context(), l[1].Keys.Holder()).Val(); ttl < scripttest.Lease/2 {
			t.Errorf("a run that says that a lock is held has left it a lease of %v", ttl)
		}
		l[2].Lock("w1")
		if g := l.acquire("a1"); len(g) != 3 || g[1].Waiting != 0 || g[2].Waiting != 1 || g[2].Token != token {
			t.Errorf("with a ticket that waits: %+v", g)
		}
		l[2].Cancel("w1")

		l[2].Release("a1")
		l.wantRefused("one was released", "a1")
		l[0].WantHolder("a1")
		l.cancel("a1")
		l.wantRefused("late, when all are over", "a1")
		l.wantNobody()
	})
}

// One execution for several locks has the same effect as one execution of acquire.lua for each.
func TestATripWritesWhatAcquireWrites(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	onLocks(t, func(l locks) {
		for i, mode := range []core.Mode{core.Exclusive, core.Fair, core.Write} {
			for k, traced := range []string{"", trace} {
				together, alone := fmt.Sprint("a", 2*i+k), fmt.Sprint("b", 2*i+k)
				a := l.acquires(together)
				a.Mode, a.Trace = mode, traced
				a.Info.Label = "label"
				if g, err := script.AcquireAllAnswer(l[0].Send(a), 3); g == nil || err != nil {
					l[0].Fatal(g, err)
				}
				all := l[0].Look().Holder.Fields
				l.cancel(together)
				one := scripttest.Acquire{ID: alone, Mode: mode, Trace: traced}.Operation(l[0])
				one.Info, one.Inbox = a.Info, a.Inbox
				l[0].Send(one)
				want := l[0].Look().Holder.Fields
				for _, f := range []map[string]string{all, want} {
					if f["token"] == "" {
						t.Errorf("no token: %v", f)
					}
					delete(f, "id")
					delete(f, "token")
					delete(f, "since") // only if the counter is ahead of the clock
				}
				if !maps.Equal(all, want) {
					t.Errorf("%v: %v, want %v", mode, all, want)
				}
				l[0].Cancel(alone)
			}
		}
	})
}

// Rule 19: acquire_all.lua may be cut off after any of its writes. Its caller then cancels each id, and nothing is left. A copy
// before or after that takes no lock from another id.
func TestATripMayEndAfterAnyOfItsWrites(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		for writes, ended := 0, true; ended; writes++ {
			l := newLocks(t, s, fmt.Sprint(t.Name(), writes))
			l[0].Tidy = false
			l[0].EndAfter(writes)
			err := l[0].Send(l.acquires("a1")).Err
			l[0].EndAtTheEnd()
			if ended = err != nil; ended && !strings.Contains(err.Error(), "ended after") {
				t.Fatal(err)
			}
			if held := l.acquire("a1") != nil; ended && writes > 1 && held {
				t.Errorf("cut off after %d writes, a copy says that all are held", writes)
			}
			l[1].Lock("w1") // waits, or has it
			l.cancel("a1")
			l[1].Settle()
			l[0].WantHolder("")
			l[1].WantHolder("w1")
			l[2].WantHolder("")
			l.wantRefused("a copy that is late", "a1")
		}
	})
}

func TestWithFullMemoryATripWritesNothing(t *testing.T) {
	s := redistest.Lent(t)
	l := newLocks(t, s, t.Name())
	l.wantHeld("free", "a1")
	full := func(limit string) {
		t.Helper()
		if err := l[0].Redis.ConfigSet(t.Context(), "maxmemory", limit).Err(); err != nil {
			t.Fatal(err)
		}
	}
	full("1")
	l.wantHeld("repeated", "a1")
	l.releaseAll("a1", script.Done, script.Done, script.Done)
	before := l.look()
	if err := l[0].Send(l.acquires("b1")).Err; err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("with a full memory: %v", err)
	}
	l.wantSame("refused", before)
	full("0")
	l.wantHeld("with room again", "b1")
}

// releaseAll checks the answer for each lock: Unknown if it is left to its own release.
func (l locks) releaseAll(id string, want ...script.Outcome) {
	l[0].Helper()
	op := &script.ReleaseAll{Locks: l.ids(id)}
	for i, r := range op.Answers(l[0].Send(op)) {
		got := script.Unknown
		if r != nil {
			var err error
			if got, err = script.EndedAnswer(r); err != nil {
				l[i].Error(err)
			}
		}
		l[i].Want(fmt.Sprint("release of lock ", i), got, want[i])
		if copies := op.Locks[i].ID.Releases(); copies != 1 && r != nil || copies != 0 && r == nil {
			l[i].Errorf("lock %d: %d copies of its release may have done something", i, copies)
		}
	}
}

func TestLocksAreReleasedTogether(t *testing.T) {
	onLocks(t, func(l locks) {
		l.wantHeld("free", "a1")
		l[0].Lock("w1")
		l[2].Cancel("a1")
		l.releaseAll("a1", script.Unknown, script.Done, script.Unknown)
		l[0].WantHolder("a1")
		l[0].Release("a1")
		l[0].WantHolder("w1")
		l[1].WantHolder("")
	})
}

func TestAReleaseOfSeveralLocksMayEndAfterAnyOfItsWrites(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		for writes, ended := 0, true; ended; writes++ {
			l := newLocks(t, s, fmt.Sprint(t.Name(), writes))
			l.wantHeld("free", "a1")
			l[0].EndAfter(writes)
			ended = l[0].Send(&script.ReleaseAll{Locks: l.ids("a1")}).Err != nil
			l[0].EndAtTheEnd()
			if ended && writes > 0 {
				t.Errorf("it has written something before its last command, number %d", writes)
			}
			for _, d := range l {
				d.Release("a1")
			}
			l.wantNobody()
		}
	})
}

// A malformed answer is an error.
func TestAStrangeAnswerToATripIsAnError(t *testing.T) {
	for _, answer := range []string{"return 7", "return {}", "return {'1', 0}", "return 'x'", "return {'0', 0, 0, 0}"} {
		d := scripttest.New(t, redistest.Mini(t).NewClient(t), "item")
		cmd := d.Redis.Eval(t.Context(), answer, nil)
		if g, err := script.AcquireAllAnswer(transport.NewReply(cmd.Val(), cmd.Err(), 0), 3); err == nil {
			t.Errorf("%s: %v", answer, g)
		}
	}
}
