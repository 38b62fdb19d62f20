package rw

import (
	"context"
	"sync"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/judge"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// Readers of one process share a hold in Redis for as long as no writer waits.
var sharing = []env.Scenario{
	env.Case("readers of one process share a hold", readersShare, env.TwoSided|env.OnServer|env.Shares|env.Sample),
	env.Case("readers with different leases do not share a hold", leasesNotShared, env.TwoSided|env.OnServer|env.Shares|env.Sample),
	env.Case("joining a hold sends nothing", joinsSendNothing, env.TwoSided|env.OnServer|env.InBubble),
	env.Case("readers of one process that come and go send few commands", readersSendLittle, env.TwoSided|env.OnServer|env.Shares),
	env.Case("readers of one process that ask at once share a hold", readersAskTogether, env.TwoSided|env.OnServer|env.Shares),
	env.Case("nobody joins a hold while a writer waits", noJoinBehindWriter, env.TwoSided|env.OnServer|env.Shares),
	env.Case("readers share a hold again after the writer", shareAfterWriter, env.TwoSided|env.OnServer|env.Shares),
	env.Case("readers share a hold again after a writer that has given up", shareAfterCancel, env.TwoSided|env.OnServer|env.Shares),
	env.Case("readers that join are kept by no server beyond their context", silentJoin, env.TwoSided|env.OnServer|env.Shares),
	env.Case("a reader that is cancelled while it joins leaves no hold behind", cancelledJoin, env.TwoSided|env.OnServer|env.Shares),
	env.Case("a writer that comes while nobody hears of it is delayed by a licence at most", writerUnheard, env.TwoSided|env.InRealTime|env.Alone|env.Sample),
	env.Case("the last reader's release frees the lock at once", lastReaderReleases, env.TwoSided|env.OnServer|env.Shares),
	env.Case("a reader who leaves takes nothing from the others", readersLeaveSharedHold, env.TwoSided|env.OnServer|env.Shares),
	env.Case("a lost hold is lost for all who share it", sharedHoldLost, env.TwoSided|env.OnServer|env.Shares),
}

// licence is for how long readers may join without asking whether a writer waits.
const licence = 100 * time.Millisecond

// scripts are the commands of c about key since it was recorded.
func scripts(c *env.Client, key string) (sent []redistest.Command) {
	for _, command := range c.Wire.Sent() {
		if command.IsScript() && command.Concerns(key) {
			sent = append(sent, command)
		}
	}
	return sent
}

// readsOf takes key n times for reading.
func readsOf(e *env.Env, c *env.Client, key string, n int, opts ...lockmw.Option) []*judge.Held {
	e.T.Helper()
	holds := make([]*judge.Held, n)
	for i := range holds {
		holds[i] = read(e, c, key, opts...)
	}
	return holds
}

func readersShare(e *env.Env) {
	const readers = 20
	a, b, key := e.Client(), e.Client(), e.Key("item")
	holds := append(readsOf(e, a, key, readers), readsOf(e, b, key, readers)...)
	if n := len(shares(e, key)); n > 4 { // while a licence is renewed one may get a hold of its own
		e.T.Errorf("%d readers of two processes have %d holds", len(holds), n)
	}
	status := e.Server.Status(key)
	if status.Mode != env.ReadMode || len(status.Holders) != len(shares(e, key)) {
		e.T.Errorf("the inspector sees %d holders, who %s", len(status.Holders), status.Mode)
	}
	release(e, holds...)
	e.Free(b.RW, key)
}

func leasesNotShared(e *env.Env) {
	c, key := e.Client(), e.Key("item")
	var holds []*judge.Held
	for _, opt := range []lockmw.Option{
		lockmw.WithLease(10 * time.Second), lockmw.WithLease(20 * time.Second), lockmw.WithFixedLease(10 * time.Second),
		lockmw.WithMaxHold(time.Minute),
	} {
		holds = append(holds, readsOf(e, c, key, 3, opt)...)
	}
	if n := len(shares(e, key)); n < 4 {
		e.T.Errorf("readers with four different leases have %d holds", n)
	}
	release(e, holds...)
	e.Free(c.RW, key)
}

func joinsSendNothing(e *env.Env) {
	c, key := e.Client().Warm(), e.Key("item")
	held := read(e, c, key)
	for range 2 { // the first one to join has the process listen, and the second one has it ask again whether a writer waits
		release(e, read(e, c, key))
		synctest.Wait()
	}
	c.Wire.Record()
	release(e, readsOf(e, c, key, 100)...)
	if sent := scripts(c, key); len(sent) > 0 {
		e.T.Errorf("100 reads beside another one sent %d commands, the first one %q", len(sent), sent[0])
	}
	for range 50 {
		e.Pass(licence / 5)
		release(e, readsOf(e, c, key, 5)...)
	}
	if n := len(scripts(c, key)); n > 22 { // every licence is asked for, and some holds may be released
		e.T.Errorf("the reads of ten licences sent %d commands", n)
	}
	release(e, held)
	e.Free(c.RW, key)
}

func readersSendLittle(e *env.Env) {
	const readers, rounds = 16, 200
	c, key := e.Client().Warm(), e.Key("item")
	c.Wire.Record()
	start := time.Now()
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for range rounds {
				_, held, err := e.Rec.Lock(e.Ctx, c.Reader(), key)
				if err != nil {
					e.T.Errorf("Lock: %v", err)
					return
				}
				e.Pass(time.Millisecond)
				release(e, held)
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	most := 20 + 4*int(took/(100*time.Millisecond)) // each licence, and when they happen to be all out
	if n := len(scripts(c, key)); n > most {
		e.T.Errorf("%d reads in %v sent %d commands, more than %d", readers*rounds, took, n, most)
	}
}

func readersAskTogether(e *env.Env) {
	const readers = 32
	c, key := e.Client().Warm(), e.Key("item")
	calls := make([]*env.Waiter, readers)
	c.Wire.Record()
	for i := range calls {
		calls[i] = e.Call(e.Ctx, c.Reader(), key)
	}
	holds := together(e, calls)
	if n := len(scripts(c, key)); e.Config.Bubble && n > 4 {
		e.T.Errorf("%d reads at once sent %d commands", readers, n)
	}
	release(e, holds...)
	e.Free(c.RW, key)
}

func noJoinBehindWriter(e *env.Env) {
	for _, writersClient := range []func(a, b *env.Client) *env.Client{
		func(a, _ *env.Client) *env.Client { return a }, func(_, b *env.Client) *env.Client { return b },
	} {
		a, b, key := e.Client(), e.Client(), e.Key("item")
		holds := readsOf(e, a, key, 3)
		w := e.Wait(writersClient(a, b).RW, key)
		behind := behind(e, a, key)
		for range 10 {
			e.Busy(a.Reader(), key)
		}
		release(e, holds[1], holds[0])
		w.IsWaiting()
		behind.IsWaiting()
		release(e, holds[2])
		_, held := w.Gets(e.Soon)
		behind.IsWaiting()
		release(e, held)
		e.Unlock(behind.Gets(e.Soon))
	}
}

func shareAfterWriter(e *env.Env) {
	a, b, key := e.Client(), e.Client(), e.Key("item")
	for range 3 {
		first := read(e, a, key)
		w := e.Wait(b.RW, key)
		release(e, first)
		e.Unlock(w.Gets(e.Soon))
		holds := readsOf(e, a, key, 20)
		if n := len(shares(e, key)); n > 3 {
			e.T.Errorf("after a writer %d readers have %d holds", len(holds), n)
		}
		release(e, holds...)
		e.Free(b.RW, key)
	}
}

func shareAfterCancel(e *env.Env) {
	a, b, key := e.Client(), e.Client(), e.Key("item")
	first := read(e, a, key)
	w := e.Wait(b.RW, key)
	heard(e, a, key)
	w.Cancel()
	w.Fails(e.Soon, context.Canceled)
	nobodyQueued(e, key)
	holds := readsOf(e, a, key, 20)
	if n := len(shares(e, key)); n > 4 {
		e.T.Errorf("after a writer that has given up %d readers have %d holds", len(holds), n)
	}
	release(e, holds...)
	release(e, first)
	e.Free(b.RW, key)
}

func silentJoin(e *env.Env) {
	c, other, key := e.Client(), e.Client(), e.Key("item")
	held := read(e, c, key)
	release(e, read(e, c, key))
	c.Wire.Silence()
	e.Pass(2 * licence) // until it is not known any more whether a writer waits
	c.AsReader().SilentCall(key)
	c.AsReader().SilentCall(key, lockmw.WithWait(0))
	c.Wire.Restore()
	e.Busy(other.RW, key)
	release(e, held)
	e.Unlock(e.Call(e.Ctx, other.RW, key).Gets(env.AcceptWindow + env.PollInterval + e.Soon))
}

func cancelledJoin(e *env.Env) {
	c, other, key := e.Client(), e.Client(), e.Key("item")
	first := read(e, c, key)
	release(e, read(e, c, key))
	for _, firstLeaves := range []bool{true, false} {
		e.Pass(2 * licence)
		answer := c.Wire.HoldReply(key)
		w := e.Call(e.Ctx, c.Reader(), key)
		e.Caught(answer)
		if firstLeaves {
			release(e, first)
		}
		w.Cancel()
		w.Fails(e.Soon, context.Canceled)
		answer.Deliver()
		if !firstLeaves {
			release(e, first)
		}
		e.Free(other.RW, key)
		first = read(e, c, key, lockmw.WithWait(e.Ample(e.Soon)))
	}
	release(e, first)
}

func writerUnheard(e *env.Env) {
	a, b, key := e.Client(), e.Client(), e.Key("item")
	defer e.Crowd(a.Reader(), key, 10, 20*time.Millisecond)()
	for range 3 {
		gets(e, key, 50)
		e.Server.Admin.ClientKillByFilter(e.Ctx, "TYPE", "pubsub")
		w := e.Wait(b.RW, key)
		e.Unlock(w.Gets(licence + e.Soon))
	}
}

func lastReaderReleases(e *env.Env) {
	a, b, key := e.Client(), e.Client(), e.Key("item")
	for range 10 {
		release(e, readsOf(e, a, key, 5)...)
		_, held, err := e.Rec.Lock(e.Ctx, b.RW, key, lockmw.WithWait(0))
		if err != nil {
			e.T.Fatalf("a try after the last reader's Unlock: %v", err)
		}
		release(e, held)
	}
}

func readersLeaveSharedHold(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	a, b, key := e.Client(), e.Client(), e.Key("item")
	holds := readsOf(e, a, key, 6, lockmw.WithLease(lease))
	for _, i := range []int{3, 0, 5, 1} {
		release(e, holds[i])
		e.Is("Unlock once more", holds[i].Hold.Unlock(), lockmw.ErrNotHeld)
		e.Busy(b.RW, key)
	}
	e.Pass(2 * lease)
	alive(e, holds[2], holds[4])
	w := e.Wait(b.RW, key)
	release(e, holds[4])
	w.IsWaiting()
	release(e, holds[2])
	e.Unlock(w.Gets(e.Soon))
}

func sharedHoldLost(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	a, b, key := e.Client(), e.Client(), e.Key("item")
	holds := readsOf(e, a, key, 4, lockmw.WithLease(lease))
	w := e.Wait(b.RW, key)
	a.Wire.Silence()
	for _, h := range holds {
		if e.Ends(h.Ctx) {
			e.Is("the cause of the context's end", context.Cause(h.Ctx), lockmw.ErrLost)
		}
	}
	_, held := w.Gets(lease + env.PollInterval + e.Soon)
	a.Wire.Restore()
	for _, h := range holds {
		e.Is("Unlock of a lost hold", h.Unlock(), lockmw.ErrLost)
	}
	e.Busy(b.Reader(), key)
	release(e, held)
}
