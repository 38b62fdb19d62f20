package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/test/redistest"
)

// A party is a call that wants several locks.
type party struct {
	*rig
	members  []*requester
	requests []*core.Request
}

func (r *rig) party(keys []string, edit ...func(*core.Request)) *party {
	p := &party{rig: r}
	for _, key := range keys {
		a := newRequester(key)
		for _, f := range edit {
			f(&a.Request)
		}
		p.members, p.requests = append(p.members, a), append(p.requests, &a.Request)
	}
	return p
}

// takes makes a multi-acquire that is granted.
func (p *party) takes() []core.Hold {
	p.Helper()
	holds, err := p.e.AcquireAll(p.Context(), p.requests)
	if err != nil || len(holds) != len(p.requests) {
		p.Fatalf("%d holds, %v", len(holds), err)
	}
	return holds
}

// asks makes a multi-acquire in the background. It passes its holds on, which are nil if it is not granted.
func (p *party) asks() <-chan []core.Hold {
	answer := make(chan []core.Hold, 1)
	go func() {
		holds, err := p.e.AcquireAll(p.Context(), p.requests)
		if err != nil {
			p.Error(err)
		}
		answer <- holds
	}()
	return answer
}

// takesOnce is takes by a single command, however late its answer is.
func (p *party) takesOnce() []core.Hold {
	p.Helper()
	var m <-chan []core.Hold
	p.gather(1, func() { m = p.asks() })
	return <-m
}

// isRefused makes a multi-acquire that is not granted.
func (p *party) isRefused(what string) {
	p.Helper()
	if holds, err := p.e.AcquireAll(p.Context(), p.requests); holds != nil || err != nil {
		p.Errorf("%s: %d holds, %v", what, len(holds), err)
	}
}

// releases checks that all holds end well.
func (p *party) releases(holds []core.Hold) {
	p.Helper()
	for i, r := range p.e.ReleaseAll(holds, soon) {
		if r.Err != nil {
			p.Errorf("Release of hold %d: %v", i, r.Err)
		}
	}
}

// isEmpty checks that neither side has anything left, once everything in flight has arrived.
func (r *rig) isEmpty() {
	r.Helper()
	eventually(r.T, "something is left on the server", func() bool { return len(r.left()) == 0 })
	r.e.eachCohort(func(c *cohort) { r.Errorf("there is a cohort for %q", c.key) })
	if l, q := r.e.ids.leases(), r.e.ids.requests(); len(l)+len(q) > 0 {
		r.Errorf("%d leases and %d requests are left", len(l), len(q))
	}
}

func TestAMultiAcquireIsOneCommandAndSoIsItsRelease(t *testing.T) {
	inRigBubble(t, func(r *rig) {
		r.warm()
		synctest.Wait() // the release has made the engine look at the server
		for _, mode := range []core.Mode{core.Exclusive, core.Fair, core.Write} {
			for range 2 { // the server does not know the scripts at first
				r.wire.Record()
				p := r.party(r.keys(8), func(r *core.Request) { r.Mode = mode })
				holds := p.takes()
				for i, h := range holds {
					h := h.(*hold)
					if h.Token() != holds[0].Token() || holderOf(r.T, r.rdb, h) != h.lease.id.String() || h.Req != p.requests[i] {
						r.Errorf("%v: hold %d has token %d, and the server has %q", mode, i, h.Token(), holderOf(r.T, r.rdb, h))
					}
					if h.lease.id.Copied() {
						r.Errorf("%v: %d copies may have taken hold %d", mode, h.lease.id.Copies(), i)
					}
				}
				p.releases(holds)
				r.isEmpty()
			}
			if n := len(r.wire.Sent()); n != 2 {
				r.Errorf("%v: %d commands: %q", mode, n, r.wire.Sent())
			}
		}
	})
}

// Shutdown may begin when a multi-acquire has begun and has no requests yet, so that Shutdown cannot end them.
func TestAMultiAcquireAsksForNothingAfterShutdown(t *testing.T) {
	inRigBubble(t, func(r *rig) {
		m := &multiAcquire{e: r.e}
		waiters, _ := localq.NewWaiters(r.Context(), r.party(r.keys(1)).requests, clock.Now())
		if err := r.e.Shutdown(r.Context()); err != nil {
			r.Fatal(err)
		}
		if m.add(waiters[0]) {
			r.Error("it asks for a lock")
			m.giveBack()
		}
		r.isEmpty()
	})
}

func TestEachHoldOfAMultiAcquireEndsByItself(t *testing.T) {
	inRigBubble(t, func(r *rig) {
		p := r.party(r.keys(4), func(r *core.Request) { r.Lease = 300 * time.Millisecond })
		holds := p.takes()
		if _, err := holds[0].Release(soon); err != nil {
			r.Error(err)
		}
		r.rdb.Del(r.Context(), holds[1].(*hold).lease.c.keys.Holder())
		select { // its renewal says so
		case err := <-p.members[1].lost:
			if !errors.Is(err, core.ErrLost) {
				r.Error(err)
			}
		case <-time.After(soon):
			r.Error("the loss of one lock is not noticed")
		}
		deadline := holds[2].Deadline()
		eventually(r.T, "it is not renewed", func() bool { return deadline.Before(holds[2].Deadline()) })
		results := r.e.ReleaseAll(holds, soon)
		for i, want := range []error{core.ErrNotHeld, core.ErrLost, nil, nil} {
			if got := results[i].Err; !errors.Is(got, want) {
				r.Errorf("Release of hold %d: %v, want %v", i, got, want)
			}
		}
		r.isEmpty()
	})
}

func TestARefusedMultiAcquireGivesEverythingBack(t *testing.T) {
	onRig(t, func(r *rig) {
		other := newEngine(t, r.s.NewClient(t))
		h := newRequester("item:2").acquire(t, other)
		r.party(r.keys(4)).isRefused("one key is held by another process")
		r.wire.Record()
		for _, key := range []string{"item:0", "item:1", "item:3"} {
			if err := unlock(newRequester(key).acquire(t, r.e)); err != nil {
				t.Error(err)
			}
		}
		if err := unlock(h); err != nil {
			t.Error(err)
		}
		r.isEmpty()
		r.party(r.keys(4)).releases(r.party(r.keys(4)).takes())
	})
}

func unlock(h core.Hold) error {
	_, err := h.Release(soon)
	return err
}

// The server need not be asked about locks that other calls of the process hold or want.
func TestNoMultiAcquireForKeysInUseInTheProcess(t *testing.T) {
	onRig(t, func(r *rig) {
		for _, mode := range []core.Mode{core.Exclusive, core.Write} {
			one := newRequester("item:1")
			one.Mode = mode
			h := one.acquire(t, r.e)
			r.wire.Record()
			r.party(r.keys(3), func(r *core.Request) { r.Mode = mode }).isRefused("one key is held here")
			if sent := r.wire.Sent(); slices.ContainsFunc(sent, redistest.Command.IsScript) {
				t.Errorf("%v: sent %q", mode, sent)
			}
			if err := unlock(h); err != nil {
				t.Error(err)
			}
			r.isEmpty()
		}
	})
}

// A caller that comes while the multi-acquire is in flight waits in the cohort of its key.
func TestCallersJoinTheCohortsOfAMultiAcquire(t *testing.T) {
	onRig(t, func(r *rig) {
		r.party(r.keys(3)).releases(r.party(r.keys(3)).takes()) // the server knows the scripts
		for _, granted := range []bool{true, false} {
			var h *hold
			other := newEngine(t, r.s.NewClient(t))
			if !granted {
				h = newRequester("item:0").acquire(t, other)
			}
			answer := r.wire.HoldReply(r.e.scripts.All()["acquire_all"].SHA)
			p := r.party(r.keys(3))
			m := p.asks()
			<-answer.Caught()
			joined := make(chan *hold, 1)
			go func() { joined <- newRequester("item:1").acquire(t, r.e) }()
			eventually(t, "no call joins", func() bool {
				c := r.e.lockCohort(&core.Request{Key: "item:1"})
				defer c.unlock()
				return c.waiters.Len == 2
			})
			answer.Deliver()
			holds := <-m
			if (holds != nil) != granted {
				t.Errorf("%d holds; want some: %t", len(holds), granted)
			}
			if granted {
				select {
				case <-joined:
					t.Error("two have the lock")
				default:
				}
				p.releases(holds)
			} else if err := unlock(h); err != nil {
				t.Error(err)
			}
			select {
			case h := <-joined:
				if err := unlock(h); err != nil {
					t.Error(err)
				}
			case <-time.After(soon):
				t.Error("the call that has joined waits forever")
			}
			r.isEmpty()
		}
	})
}

// Without an answer every id is cancelled: neither what the multi-acquire took nor a copy that comes late has a lock then.
func TestAMultiAcquireWithoutAnAnswerIsCancelled(t *testing.T) {
	onRig(t, func(r *rig) {
		r.party(r.keys(3)).releases(r.party(r.keys(3)).takes())
		late := r.wire.Withhold(r.e.scripts.All()["acquire_all"].SHA)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		m := r.e.newMultiAcquire(ctx, r.party(r.keys(3)).requests)
		r.e.sender.Start(m.call())
		<-late.Caught()
		cancel()
		err := m.await(m.parts[0].w)
		holds := m.holds()
		if holds != nil || !errors.Is(err, context.Canceled) || !errors.Is(err, core.ErrBusy) && !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("%d holds, %v", len(holds), err)
		}
		m.giveBack()
		late.Break()
		r.e.sender.WaitIdle(soon)
		r.isEmpty()
		if answer, err := late.Send(t.Context()); err != nil || answer != ":-1\r\n" {
			t.Errorf("the late copy: %q, %v", answer, err)
		}
		r.isEmpty()
	})
}

// The same happens if the multi-acquire has taken the locks and its answer is lost.
func TestAMultiAcquireWhoseGrantIsLostIsCancelled(t *testing.T) {
	onRig(t, func(r *rig) {
		r.party(r.keys(3)).releases(r.party(r.keys(3)).takes())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		answer := r.wire.HoldReply(r.e.scripts.All()["acquire_all"].SHA)
		defer answer.Deliver()
		m := r.e.newMultiAcquire(ctx, r.party(r.keys(3)).requests)
		r.e.sender.Start(m.call())
		<-answer.Caught()
		if left := r.left(); len(left) != 3 {
			t.Fatalf("the server has %q, want three locks", left)
		}
		cancel()
		if err := m.await(m.parts[0].w); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		m.giveBack()
		r.isEmpty()
		answer.Deliver()
		r.e.sender.WaitIdle(soon)
		r.isEmpty()
	})
}

// A lost reply makes go-redis send the multi-acquire again, which is answered the same.
func TestAMultiAcquireWhoseAnswerIsLostIsAnsweredAgain(t *testing.T) {
	onRig(t, func(r *rig) {
		r.party(r.keys(3)).releases(r.party(r.keys(3)).takes())
		lost := r.wire.LoseReply(r.e.scripts.All()["acquire_all"].SHA)
		p := r.party(r.keys(3))
		holds := p.takes()
		<-lost.Caught()
		for _, h := range holds {
			if l := h.(*hold).lease; !l.id.Copied() {
				t.Errorf("%d copies were sent", l.id.Copies())
			}
		}
		p.releases(holds)
		for _, h := range holds { // a third copy may still be in flight
			l := h.(*hold).lease
			if r.rdb.Exists(t.Context(), l.c.keys.Done(l.id.String())).Val() == 0 {
				t.Error("an id of which there are copies is not refused after its release")
			}
		}
		r.isEmpty()
	})
}

func TestAMultiAcquireOfACallThatOnlyTriesEndsWithTheServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, redistest.Mini(t), func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
	r.party(r.keys(3)).releases(r.party(r.keys(3)).takes())
	r.s.Mini.Close()
	p := r.party(r.keys(3), func(r *core.Request) { r.Wait = 0 })
	if holds, err := r.e.AcquireAll(t.Context(), p.requests); holds != nil || !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("%d holds, %v", len(holds), err)
	}
}

// A hold that others wait for, or that is not plain, is released on its own. One that was asked for twice is not plain.
func TestReleasesThatAreNotPlainGoOutOnTheirOwn(t *testing.T) {
	onRig(t, func(r *rig) {
		r.warm()
		r.party(r.keys(4)).releases(r.party(r.keys(4)).takesOnce()) // the server knows the scripts
		p := r.party(r.keys(4))
		p.requests[3].MinHold = 10 * time.Minute
		holds := p.takesOnce()
		waits := newRequester("item:1").queue(t, newEngine(t, r.s.NewClient(t)))
		r.wire.Record()
		p.releases(holds)
		if all, alone := r.ran("release_batch"), r.ran("release"); all != 1 || alone != 2 {
			t.Errorf("%d runs for several, %d for one", all, alone)
		}
		select {
		case h := <-waits:
			if err := unlock(h); err != nil {
				t.Error(err)
			}
		case <-time.After(soon):
			t.Error("the waiter is not granted the lock")
		}
		if left := r.left(); !slices.Equal(left, []string{"lockmw:{item:3}"}) {
			t.Errorf("left: %q, want what has a minimum hold", left)
		}
	})
}

func TestNoMultiAcquireWhereItIsNotPossible(t *testing.T) {
	onRig(t, func(r *rig) {
		r.wire.Record()
		r.party(r.keys(core.MaxTogether + 1)).isRefused("too many keys")
		r.party(r.keys(2), func(r *core.Request) { r.Mode = core.Read }).isRefused("locks for reading")
		r.e.sender.SetBatching(false)
		r.party(r.keys(2)).isRefused("a server that may be several")
		if n := len(r.wire.Sent()); n > 0 {
			t.Errorf("sent %q", r.wire.Sent())
		}
	})
}
