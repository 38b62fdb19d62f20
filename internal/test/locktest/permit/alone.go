package permit

import (
	stdcontext "context"
	"slices"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

type context = stdcontext.Context

func lostAlone(e *env.Env) {
	const lease = time.Second
	dead, alive, c, key := e.Client(), e.Client(), e.Client(), e.Key("pool")
	lostCtx, lost := lock(e, over(dead, 2), key, 1, lockmw.WithLease(lease))
	ctx, held := lock(e, over(alive, 2), key, 1, lockmw.WithLease(lease))
	dead.Wire.Cut()
	start := time.Now()
	_, next, err := over(c, 2).Lock(e.Ctx, key)
	if err != nil {
		e.T.Fatal(err)
	}
	if took := time.Since(start); took < lease*9/10 || took > lease+e.Soon {
		e.T.Errorf("the next permit was granted after %v, with a lease of %v", took, lease)
	}
	if lostCtx.Err() == nil || ctx.Err() != nil {
		e.T.Errorf("the disconnected holder's context: %v, the other one: %v", lostCtx.Err(), ctx.Err())
	}
	e.Is("Unlock of the disconnected holder", lost.Unlock(), lockmw.ErrLost)
	e.Pass(5 * lease) // the watchdog renews the other permits
	unlock(e, next)
	unlock(e, held)
	dead.Wire.Restore()
}

// killedAlone kills a process with a permit. The n of that process applies only to its own calls.
func killedAlone(e *env.Env) {
	p, key := e.Process(), e.Key("pool")
	killed := p.Lock(key, e.Ample(600*time.Millisecond))
	killed.Gets(env.Patience)
	l := over(e.Client(), 3)
	ctx, one := lock(e, l, key, 1)
	other, two := lock(e, l, key, 1)
	waits := e.Client()
	waiter := e.Wait(waits.With(over(waits, 3)), key)
	e.Server.TicketsQueued(key, 1)
	killed.Await(judge.Renewed, env.Patience)
	p.Kill()
	nextCtx, next := waiter.Gets(env.Patience)
	if next.Slot() != 0 || next.Token() <= two.Token() {
		e.T.Errorf("the next hold has slot %d and token %d, after token %d", next.Slot(), next.Token(), two.Token())
	}
	if ctx.Err() != nil || other.Err() != nil {
		e.T.Errorf("the other holds: %v, %v", ctx.Err(), other.Err())
	}
	e.Unlock(nextCtx, next)
	unlock(e, one)
	unlock(e, two)
}

func forcedAlone(e *env.Env) {
	c, key := e.Client(), e.Key("pool")
	l := over(c, 2)
	ctx, held := lock(e, l, key, 1)
	other, taken := lock(e, l, key, 1)
	for _, h := range e.Server.Status(key).Holders {
		if h.Token == taken.Token() {
			e.Force(key, h)
		}
	}
	_, next := lock(e, over(e.Client(), 2), key, 1, lockmw.WithWait(env.Patience))
	if next.Slot() != 1 {
		e.T.Errorf("the next hold has slot %d", next.Slot())
	}
	e.Is("Unlock of the released permit", taken.Unlock(), lockmw.ErrLost)
	if ctx.Err() != nil || other.Err() == nil {
		e.T.Errorf("the other hold: %v, the released one: %v", ctx.Err(), other.Err())
	}
	unlock(e, held)
	unlock(e, next)
}

func nested(e *env.Env) {
	c, key := e.Client(), e.Key("pool")
	l := over(c, 4)
	ctx, outer := lock(e, l, key, 2)
	c.Wire.Record()
	_, inner, err := l.Lock(ctx, key, lockmw.WithWeight(2))
	if err != nil || !slices.Equal(inner.Slots(), outer.Slots()) || inner.Token() != outer.Token() {
		e.T.Fatalf("a nested call: %v, the slots %v and %v", err, outer.Slots(), inner.Slots())
	}
	_, _, err = l.Lock(ctx, key, lockmw.WithWeight(3))
	e.Is("a nested call with a greater weight", err, lockmw.ErrUpgrade)
	_, _, err = c.Redis.Lock(ctx, key)
	e.Is("a lock nested in a permit", err, lockmw.ErrWrongType)
	wantSilent(e, c, key)
	unlock(e, outer)
	unlock(e, inner)
	ctx, locked, err := c.Redis.Lock(e.Ctx, key)
	if err != nil {
		e.T.Fatal(err)
	}
	c.Wire.Record()
	_, _, err = l.Lock(ctx, key)
	e.Is("a permit nested in a lock", err, lockmw.ErrWrongType)
	wantSilent(e, c, key)
	unlock(e, locked)
}

// wantSilent checks that the client has sent nothing about key since recording began.
func wantSilent(e *env.Env, c *env.Client, key string) {
	for _, sent := range c.Wire.Sent() {
		if sent.IsScript() && sent.Concerns(key) {
			e.T.Errorf("a nested call sent %q", sent)
		}
	}
}

func kindsRefuse(e *env.Env) {
	c, key := e.Client(), e.Key("pool")
	l := over(c, 2)
	_, held := lock(e, l, key, 1)
	for _, wait := range []time.Duration{0, lockmw.Forever} {
		_, _, err := c.Redis.Lock(e.Ctx, key, lockmw.WithWait(wait))
		e.Is("a lock of a key with permits", err, lockmw.ErrWrongType)
	}
	unlock(e, held)
	_, locked, err := c.Redis.Lock(e.Ctx, key)
	if err != nil {
		e.T.Fatalf("a lock of a free key: %v", err)
	}
	for _, wait := range []time.Duration{0, lockmw.Forever} {
		_, _, err := l.Lock(e.Ctx, key, lockmw.WithWait(wait))
		e.Is("a permit of a key with a lock", err, lockmw.ErrWrongType)
	}
	unlock(e, locked)
	_, held = lock(e, l, key, 2)
	unlock(e, held)
}

func limitedHolds(e *env.Env) {
	c, key := e.Client(), e.Key("pool")
	l := over(c, 3)
	ctx, held := lock(e, l, key, 1)
	short, _ := lock(e, l, key, 1, lockmw.WithMaxHold(time.Second))
	fixed, hold := lock(e, l, key, 1, lockmw.WithFixedLease(2*time.Second))
	if err := hold.Extend(e.Ctx, 3*time.Second); err != nil {
		e.T.Errorf("Extend: %v", err)
	}
	e.Ends(short)
	if fixed.Err() != nil {
		e.T.Error("an extended fixed lease ended early")
	}
	e.Ends(fixed)
	_, two := lock(e, l, key, 2, lockmw.WithWait(e.Soon))
	if ctx.Err() != nil {
		e.T.Errorf("the hold without a limit: %v", ctx.Err())
	}
	unlock(e, two)
	unlock(e, held)
}

// manySlots grants so many non-adjacent slots that their numbers do not fit into a message.
func manySlots(e *env.Env) {
	const n = 200
	c, key := e.Client(), e.Key("pool")
	l := over(c, n)
	holds := make([]*lockmw.Hold, n)
	for i := range holds {
		_, holds[i] = lock(e, l, key, 1)
	}
	b := e.Client()
	heavy := e.Wait(b.With(over(b, n, lockmw.WithWeight(n/2))), key)
	e.Server.TicketsQueued(key, 1)
	var want []int
	for i, h := range holds {
		if h.Slot()%2 == 0 {
			want = append(want, h.Slot())
			unlock(e, h)
			holds[i] = nil
		}
	}
	ctx, held := heavy.Gets(env.Patience)
	if got := held.Slots(); !slices.Equal(got, want) {
		e.T.Errorf("the slots are %v, want %v", got, want)
	}
	e.Unlock(ctx, held)
	for _, h := range holds {
		if h != nil {
			unlock(e, h)
		}
	}
}

func shown(e *env.Env) {
	c, key := e.Client(), e.Key("pool")
	l := over(c, 3)
	_, one := lock(e, l, key, 1, lockmw.WithLabel("first"))
	_, two := lock(e, l, key, 2)
	waits := e.Wait(c.With(over(c, 3, lockmw.WithWeight(2))), key)
	e.Server.TicketsQueued(key, 1)
	s := e.Server.Status(key)
	if s.Mode != env.PermitMode || len(s.Holders) != 2 || len(s.Waiters) != 1 {
		e.T.Fatalf("the status is %+v", s)
	}
	if h := s.Holders[0]; h.Token != one.Token() || h.Weight != 1 || h.Slots != "0" || h.Label != "first" || h.TTL <= 0 {
		e.T.Errorf("the first holder is %+v", h)
	}
	if h := s.Holders[1]; h.Token != two.Token() || h.Weight != 2 || h.Slots != "1-2" {
		e.T.Errorf("the second holder is %+v", h)
	}
	if w := s.Waiters[0]; w.Mode != env.PermitMode || w.Weight != 2 || w.Calls != 1 || w.Position != 1 || w.Since.IsZero() || !s.WaitingSince().Equal(w.Since) {
		e.T.Errorf("the waiter is %+v", w)
	}
	unlock(e, one)
	unlock(e, two)
	e.Unlock(waits.Gets(env.Patience))
}
