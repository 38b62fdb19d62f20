package engine

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/transport"
)

// fakeReplicas answers WAIT for an embedded server, which has no replicas. It is a hook of a redis client.
type fakeReplicas struct {
	have  atomic.Int64 // how many acknowledge
	waits atomic.Int64 // how often they were asked
	alone atomic.Int64 // how often WAIT was not behind a script
	fails atomic.Value // a string: what WAIT is answered, if not by have
}

func (*fakeReplicas) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*fakeReplicas) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (f *fakeReplicas) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		last := cmds[len(cmds)-1]
		if last.Name() != "wait" {
			return next(ctx, cmds)
		}
		f.waits.Add(1)
		rest := cmds[:len(cmds)-1]
		if len(rest) == 0 || !strings.HasPrefix(rest[len(rest)-1].Name(), "eval") {
			f.alone.Add(1)
		}
		err := next(ctx, rest)
		if text, _ := f.fails.Load().(string); text != "" {
			last.SetErr(replyError(text))
		} else if err == nil || transport.IsReply(err) {
			last.(interface{ SetVal(v any) }).SetVal(f.have.Load())
		}
		return err
	}
}

// A replicatedBubble is a bubble with an engine that wants two replicas.
type replicatedBubble struct {
	*bubble
	replicas *fakeReplicas
}

func inReplicatedBubble(t *testing.T, test func(b *replicatedBubble)) {
	t.Helper()
	inBubble(t, func(b *bubble) {
		r := &replicatedBubble{b, &fakeReplicas{}}
		r.replicas.have.Store(2)
		_ = b.e.Close()
		b.e = r.replicated(r.replicas)
		test(r)
		if n := r.replicas.alone.Load(); n > 0 {
			b.Errorf("WAIT was %d times not behind a script", n)
		}
	})
}

func (b *replicatedBubble) replicated(f *fakeReplicas) *Engine {
	b.Helper()
	rdb := b.s.NewClient(b.T, b.wire.Use)
	rdb.AddHook(f)
	e := newReplicated(b.T, rdb, transport.Replicas{Count: 2, Timeout: 100 * time.Millisecond})
	e.probe.Disable()
	return e
}

func newReplicated(t *testing.T, rdb redis.UniversalClient, replicas transport.Replicas) *Engine {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Replicas = replicas
	e, err := New(rdb, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// wantFew checks that c failed because one of two replicas has acknowledged.
func (b *replicatedBubble) wantFew(what string, err error) {
	b.Helper()
	if !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "1 of 2 replicas") {
		b.Errorf("%s: %v, want ErrUnavailable, and that 1 of 2 replicas has it", what, err)
	}
}

func TestAGrantThatFewReplicasHaveIsNone(t *testing.T) {
	inReplicatedBubble(t, func(b *replicatedBubble) {
		b.replicas.have.Store(1)
		b.wantFew("a call that does not wait", b.tryOf(core.Exclusive))
		b.wantFree()
		a := b.requester(core.Exclusive)
		a.Wait = 5 * time.Second
		begun := time.Now()
		c := b.call(b.e, a)
		<-c.done
		b.wantFew("a call whose wait has ended", c.err)
		if took := time.Since(begun); took < a.Wait {
			b.Errorf("it gave up after %v", took)
		}
		b.wantFree()

		waits := b.call(b.e, b.requester(core.Exclusive))
		time.Sleep(10 * time.Second)
		b.wantWaiting("a call with time", waits)
		b.replicas.have.Store(2)
		time.Sleep(maxTryPause)
		b.release(b.wantGranted("a call with time", waits))
		b.wantFree()
	})
}

// tryOf returns why a call of that mode which does not wait gets no lock.
func (b *replicatedBubble) tryOf(mode core.Mode) error {
	b.Helper()
	a := b.requester(mode)
	a.Wait = 0
	c := b.call(b.e, a)
	<-c.done
	if c.err == nil {
		b.release(c.grant)
	}
	return c.err
}

func TestAGrantFoundByAPushOrAPollIsConfirmedByReplicas(t *testing.T) {
	for _, found := range []string{"push", "poll"} {
		t.Run(found, func(t *testing.T) {
			inReplicatedBubble(t, func(b *replicatedBubble) {
				if found == "push" {
					b.warm()
				} else {
					b.wire.Withhold("subscribe")
				}
				b.driver.Fair("held")
				waits := b.call(b.e, b.requester(core.Fair))
				b.wantWaiting("one behind another", waits)
				b.replicas.have.Store(1)
				b.driver.Release("held")
				time.Sleep(10 * time.Second)
				b.wantWaiting("a call whose grant one replica has", waits)
				b.replicas.have.Store(2)
				asked := b.replicas.waits.Load()
				time.Sleep(2 * script.PollInterval)
				h := b.wantGranted("a call whose grant two replicas have", waits)
				if b.replicas.waits.Load() == asked {
					b.Error("it was granted without their word")
				}
				b.release(h)
				b.wantFree()
			})
		})
	}
}

// A push and a poll may both find a grant. If it were confirmed twice, the second answer would belong to an ended request, and
// would give the lock up.
func TestAGrantIsConfirmedOnceAtATime(t *testing.T) {
	inReplicatedBubble(t, func(b *replicatedBubble) {
		b.warm()
		b.driver.Fair("held")
		waits := b.call(b.e, b.requester(core.Fair))
		b.wantWaiting("one behind another", waits)
		held := b.wire.HoldReply(b.e.scripts.All()["acquire"].SHA)
		b.wire.Record()
		b.driver.Release("held")
		time.Sleep(3 * script.PollInterval) // the push, and polls
		if n := b.sent()["acquire"]; n != 1 {
			held.Deliver()
			b.Fatalf("it was confirmed %d times", n)
		}
		held.Deliver()
		h := b.wantGranted("a call whose grant is confirmed", waits)
		time.Sleep(10 * time.Second)
		if _, err := h.Release(time.Second); err != nil {
			b.Errorf("Release: %v", err)
		}
	})
}

func TestARenewalThatFewReplicasHaveLeavesTheDeadline(t *testing.T) {
	for _, mode := range []core.Mode{core.Exclusive, core.Read} {
		t.Run(mode.String(), func(t *testing.T) {
			inReplicatedBubble(t, func(b *replicatedBubble) {
				a := &renewals{requester: b.requester(mode), reported: make(chan error, 100)}
				a.Events = a
				g, err := b.e.Acquire(b.Context(), &a.Request)
				if err != nil {
					b.Fatal(err)
				}
				if err := <-a.reported; err != nil {
					b.Errorf("a renewal that two replicas have: %v", err)
				}
				deadline := g.Deadline()
				b.replicas.have.Store(1)
				b.wantFew("a renewal", <-a.reported)
				ctx, cancel := context.WithTimeout(b.Context(), time.Second)
				defer cancel()
				b.wantFew("an extension", g.Extend(ctx, a.Lease))
				if g.Deadline() != deadline {
					b.Errorf("the deadline has moved by %v", g.Deadline().Sub(deadline))
				}
				time.AfterFunc(time.Second, func() { b.replicas.have.Store(2) })
				if err := g.Extend(b.Context(), a.Lease); err != nil {
					b.Errorf("an extension that waits for the replicas: %v", err)
				}
				if !deadline.Before(g.Deadline()) {
					b.Error("an extension that two replicas have has not moved the deadline")
				}
				deadline = g.Deadline()
				for err := <-a.reported; err != nil; {
					err = <-a.reported
				}
				if !deadline.Before(g.Deadline()) {
					b.Error("a renewal that two replicas have has not moved the deadline")
				}
				b.replicas.have.Store(1)
				select {
				case <-a.lost: //nolint:errcheck // why it is lost says the next line
				case <-time.After(3 * a.Lease):
					b.Fatal("renewals that one replica has keep it")
				}
				if now := clock.Now(); now.Before(g.Deadline()) || g.Deadline().Add(time.Second).Before(now) {
					b.Errorf("it is lost %v after its deadline", now.Sub(g.Deadline()))
				}
				_, _ = g.Release(time.Second)
				b.wantFree()
			})
		})
	}
}

func TestAReleaseNeedsNoReplicas(t *testing.T) {
	inReplicatedBubble(t, func(b *replicatedBubble) {
		b.warm()
		h := b.requester(core.Exclusive).acquire(b.T, b.e)
		b.replicas.have.Store(0)
		b.release(h)
		b.wantFree()
		if n := b.replicas.waits.Load(); n != 1 {
			b.Errorf("they were asked %d times", n)
		}
	})
}

// One WAIT serves all grants of a batch, and each script of a batch that the server does not know is sent again with one.
func TestABatchOfGrantsWaitsForReplicasOnce(t *testing.T) {
	inReplicatedBubble(t, func(b *replicatedBubble) {
		b.e.sender.SetBatching(true)
		b.release(b.requester(core.Exclusive).acquire(b.T, b.e)) // the counter begins
		for _, have := range []int64{2, 1} {
			for _, known := range []bool{false, true} {
				if !known {
					b.rdb.ScriptFlush(b.Context())
				}
				time.Sleep(time.Second) // there are as many tokens as microseconds
				b.replicas.have.Store(have)
				b.replicas.waits.Store(0)
				b.e.sender.Pause()
				var calls []*calling
				for _, key := range []string{"a", "b", "c", "d"} {
					a := newRequester(key)
					a.Wait = 0
					calls = append(calls, b.call(b.e, a))
				}
				b.e.sender.Resume()
				synctest.Wait()
				for _, c := range calls {
					if have == 2 {
						b.release(b.wantGranted("a call of a batch", c))
						continue
					}
					b.wantFew("a call of a batch", c.err)
				}
				want := int64(1)
				if !known {
					want = 2
				}
				if n := b.replicas.waits.Load(); n != want {
					b.Errorf("%d have it, scripts known %t: they were asked %d times, want %d", have, known, n, want)
				}
			}
		}
	})
}

func TestAServerThatDoesNotKnowWaitIsRefused(t *testing.T) {
	inReplicatedBubble(t, func(b *replicatedBubble) {
		b.replicas.fails.Store("ERR unknown command 'wait', with args beginning with: '2' '100' ")
		c := b.call(b.e, b.requester(core.Exclusive))
		<-c.done
		if !errors.Is(c.err, core.ErrUnavailable) || !strings.Contains(c.err.Error(), "unknown command") {
			b.Errorf("with time to wait: %v", c.err)
		}
		b.wantFree()
	})
}

// Redis answers so when it becomes a replica.
func TestCallsWaitForTheNextMasterIfTheirsIsDeposed(t *testing.T) {
	for _, text := range []string{
		"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
		"ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 …",
	} {
		t.Run(text, func(t *testing.T) {
			inReplicatedBubble(t, func(b *replicatedBubble) {
				b.replicas.fails.Store(text)
				waits := b.call(b.e, b.requester(core.Exclusive))
				time.Sleep(5 * time.Second)
				b.wantWaiting("a call with time", waits)
				b.replicas.fails.Store("")
				time.Sleep(maxTryPause)
				b.release(b.wantGranted("a call with time", waits))
				b.wantFree()
			})
		})
	}
}

// A grant is confirmed for the present waiters, not for the first caller, which has left.
func TestAGrantIsConfirmedThoughTheFirstToAskHasLeft(t *testing.T) {
	inReplicatedBubble(t, func(b *replicatedBubble) {
		b.warm()
		b.driver.Fair("held")
		first := b.call(b.e, b.requester(core.Exclusive))
		second := b.call(b.e, b.requester(core.Exclusive))
		b.wantWaiting("the second of the process", second)
		b.driver.Fair("other")
		first.stop()
		<-first.done
		b.driver.Release("held")
		h := b.wantGranted("the second of the process, whose ticket is the first", second)
		b.release(h)
		b.driver.Release("other")
		b.wantFree()
	})
}

// A node that a slot moves away from leads to the other one, whose replicas are asked then.
func TestARenewalInASlotThatMovesIsAcknowledged(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 2, 1)
	e := newReplicated(t, c.Client(t), transport.Replicas{Count: 1, Timeout: 2 * time.Second})
	a := newRequester("item:1")
	a.Lease = time.Minute // a slot moves slowly on a busy machine
	g, err := e.Acquire(t.Context(), &a.Request)
	if err != nil {
		t.Fatal(err)
	}
	extend := func(when string) {
		t.Helper()
		if err := g.Extend(t.Context(), a.Lease); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	keys := e.layout.KeySet(a.Key)
	extend("before the move")
	to := c.BeginMove(keys.Holder())
	extend("before the key moves")
	c.MoveKeys(keys.Holder())
	extend("after the key has moved")
	stats, err := c.Nodes[to].NewClient(t).Info(t.Context(), "commandstats").Result()
	if err != nil || !strings.Contains(stats, "cmdstat_wait:") {
		t.Errorf("the node that the key has moved to did not ask its replicas: %v, %s", err, stats)
	}
	c.FinishMove(keys.Holder())
	extend("after the move")
	if _, err := g.Release(soon); err != nil {
		t.Error(err)
	}
}
