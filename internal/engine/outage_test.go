package engine

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
)

const cutOff = "ERR Script attempted to access a non local key in a cluster node script: f00, on @user_script:9."

// temporaryReplies are what a server says for a while.
var temporaryReplies = []string{
	"ASK 8000 127.0.0.1:7001",
	"MOVED 8000 127.0.0.1:7001",
	"TRYAGAIN Multiple keys request during rehashing of slot",
	"CLUSTERDOWN The cluster is down",
	"NOREPLICAS Not enough good replicas to write.",
	"READONLY You can't write against a read only replica.",
	"LOADING Redis is loading the dataset in memory",
	"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
	"BUSY Redis is busy running a script.",
	"ERR max number of clients reached",
	cutOff,
}

var lastingReplies = []string{
	"NOPERM User app has no permissions to run the 'evalsha' command",
	"NOAUTH Authentication required.",
	"WRONGTYPE Operation against a key holding the wrong kind of value",
	"OOM command not allowed when used memory > 'maxmemory'.",
	"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
	"CROSSSLOT Keys in request don't hash to the same slot",
	"ERR unknown command 'EVALSHA'",
	"ERR something else",
}

// inOutages runs test once for each reply, and for connections that are refused. begin begins the outage.
func inOutages(t *testing.T, replies []string, test func(b *bubble, words string, begin, end func())) {
	for _, reply := range replies {
		t.Run(strings.Fields(reply)[0]+" "+strings.Fields(reply)[1], func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warm()
				test(b, reply, func() { b.s.Mini.SetError(reply) }, func() { b.s.Mini.SetError("") })
			})
		})
	}
}

func refused(t *testing.T, test func(b *bubble, words string, begin, end func())) {
	t.Run("refused connections", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			b.warm()
			test(b, "connection refused", b.wire.Cut, b.wire.Restore)
		})
	})
}

func (b *bubble) wantUnavailable(what string, err error, words string) {
	b.Helper()
	if !errors.Is(err, core.ErrUnavailable) && !errors.Is(err, core.ErrWrongType) || !strings.Contains(err.Error(), words) ||
		strings.Contains(err.Error(), core.ErrNoAnswer.Error()) {
		b.Errorf("%s: %v, want %q", what, err, words)
	}
}

func TestACallWithTimeToWaitWaitsForTheServer(t *testing.T) {
	test := func(b *bubble, words string, begin, end func()) {
		begin()
		a := b.requester(core.Exclusive)
		a.Wait = 20 * time.Second
		waits := b.call(b.e, a)
		time.Sleep(8 * time.Second)
		b.wantWaiting("the call", waits)
		end()
		start := time.Now()
		<-waits.done
		if took := time.Since(start); took > 2*maxTryPause {
			b.Errorf("the call has the lock %v after the server can answer", took)
		}
		b.release(b.wantGranted("the call", waits))
		b.wantFree()
	}
	inOutages(t, temporaryReplies, test)
	refused(t, test)
}

func TestACallWhoseWaitHasEndedReturnsTheLastReply(t *testing.T) {
	test := func(b *bubble, words string, begin, end func()) {
		begin()
		a := b.requester(core.Exclusive)
		a.Wait = 10 * time.Second
		waits, start := b.call(b.e, a), time.Now()
		<-waits.done
		if took := time.Since(start); took != a.Wait {
			b.Errorf("it waited for %v", took)
		}
		b.wantUnavailable("the call", waits.err, words)
		end()
		time.Sleep(2 * maxCancelDelay)
		b.wantFree()
	}
	inOutages(t, temporaryReplies, test)
	refused(t, test)
}

func TestACallThatEndsWithItsContextReturnsTheLastReply(t *testing.T) {
	inOutages(t, temporaryReplies[:1], func(b *bubble, words string, begin, end func()) {
		begin()
		waits := b.call(b.e, b.requester(core.Exclusive))
		time.Sleep(8 * time.Second)
		waits.stop()
		<-waits.done
		b.wantUnavailable("the call", waits.err, words)
		if !errors.Is(waits.err, context.Canceled) {
			b.Error(waits.err)
		}
		end()
		time.Sleep(2 * maxCancelDelay)
	})
}

// Its own retries of some replies take go-redis a second and more.
const redisRetries = 2 * time.Second

func TestACallThatOnlyTriesFailsImmediately(t *testing.T) {
	test := func(edit func(r *core.Request)) func(b *bubble, words string, begin, end func()) {
		return func(b *bubble, words string, begin, end func()) {
			begin()
			patient := b.call(b.e, b.requester(core.Exclusive))
			time.Sleep(8 * time.Second) // pauses are long by now
			for range 3 {
				a, start := b.requester(core.Exclusive), time.Now()
				edit(&a.Request)
				tries := b.call(b.e, a)
				<-tries.done
				b.wantUnavailable("the try", tries.err, words)
				most := redisRetries
				if strings.HasPrefix(words, "BUSY") { // which go-redis does not retry
					most = 0
				}
				if took := time.Since(start); took > most {
					b.Errorf("failed after %v", took)
				}
			}
			b.wantWaiting("the other one", patient)
			end()
			<-patient.done
			b.release(b.wantGranted("the other one", patient))
		}
	}
	try := test(func(r *core.Request) { r.Wait = 0 })
	t.Run("try", func(t *testing.T) { inOutages(t, temporaryReplies, try); refused(t, try) })
	t.Run("fail open", func(t *testing.T) {
		open := test(func(r *core.Request) { r.FailOpen = true })
		inOutages(t, temporaryReplies[3:len(temporaryReplies)-1], open)
		refused(t, open)
	})
}

// A slot that moves is not an outage: a call that fails open waits, and a call that only tries waits for a moment.
func TestASlotThatMovesIsNoOutage(t *testing.T) {
	inOutages(t, append(temporaryReplies[:3:3], cutOff), func(b *bubble, words string, begin, end func()) {
		begin()
		open, try := b.requester(core.Exclusive), b.requester(core.Fair)
		open.FailOpen, try.Wait = true, 0
		opens, tries := b.call(b.e, open), b.call(b.e, try)
		time.Sleep(slotMoveWait / 2)
		b.wantWaiting("the try", tries)
		<-tries.done
		b.wantUnavailable("the try", tries.err, words)
		b.wantWaiting("the one that fails open", opens)
		end()
		<-opens.done
		b.release(b.wantGranted("the one that fails open", opens))
		time.Sleep(2 * maxCancelDelay) // the try is cancelled
	})
}

func TestALastingErrorEndsACallImmediately(t *testing.T) {
	inOutages(t, lastingReplies, func(b *bubble, words string, begin, end func()) {
		begin()
		start := time.Now()
		waits := b.call(b.e, b.requester(core.Exclusive))
		<-waits.done
		b.wantUnavailable("the call", waits.err, words)
		if took := time.Since(start); took > 0 {
			b.Errorf("failed after %v", took)
		}
		end()
		time.Sleep(2 * maxCancelDelay)
		b.wantFree()
	})
}

// callFor starts a call whose context ends after d.
func (b *bubble) callFor(d time.Duration) (ended <-chan error) {
	ctx, cancel := context.WithTimeout(b.Context(), d)
	c := make(chan error, 1)
	go func() {
		defer cancel()
		_, err := b.e.Acquire(ctx, &b.requester(core.Exclusive).Request)
		c <- err
	}()
	synctest.Wait()
	return c
}

// The caller for which a request was sent leaves while the server is unreachable. The other callers of its process continue to
// wait.
func TestTheNextCallerContinuesToWaitForTheServer(t *testing.T) {
	inOutages(t, temporaryReplies[5:6], func(b *bubble, words string, begin, end func()) {
		begin()
		first := b.callFor(3 * time.Second)
		a := b.requester(core.Exclusive)
		a.Wait = 5 * time.Second
		limited, patient := b.call(b.e, a), b.call(b.e, b.requester(core.Exclusive))
		b.wantUnavailable("the first", <-first, words)
		<-limited.done
		b.wantUnavailable("the second", limited.err, words)
		time.Sleep(5 * time.Second)
		b.wantWaiting("the third", patient)
		end()
		time.Sleep(2 * maxTryPause)
		b.release(b.wantGranted("the third", patient))
		time.Sleep(2 * maxCancelDelay)
		b.wantFree()
	})
}

// An answer that is an error does not say that nothing has happened.
func TestAnAcquireThatWasCutOffIsAskedFor(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		b.replace(b.e, "acquire", cutOff, 1)
		waits := b.call(b.e, b.requester(core.Exclusive))
		<-waits.done
		h := b.wantGranted("the call", waits)
		if got := b.driver.Look().HolderID(); got != h.lease.id.String() {
			b.Errorf("%s holds the lock", got)
		}
		b.release(h)
		b.wantFree()
	})
}

func TestAnAcquireThatMayHaveRunIsCancelled(t *testing.T) {
	for _, reply := range []string{cutOff, "ERR something else", "NOPERM User app has no permissions to run the 'publish' command script: f00"} {
		t.Run(reply, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warm()
				b.replace(b.e, "acquire", reply, 100)
				a := b.requester(core.Exclusive)
				a.Wait = 0
				tries := b.call(b.e, a)
				<-tries.done
				b.wantUnavailable("the try", tries.err, reply)
				b.wantFree()
			})
		})
	}
}

// A call that is refused together with all writes has done nothing, and needs no cancel.
func TestAnAcquireThatCannotHaveRunIsNotCancelled(t *testing.T) {
	inOutages(t, []string{"MISCONF no disk", "OOM command not allowed", "NOPERM User app has no permissions to run the 'evalsha' command"},
		func(b *bubble, words string, begin, end func()) {
			begin()
			b.wire.Record()
			waits := b.call(b.e, b.requester(core.Exclusive))
			<-waits.done
			end()
			b.wantSent(words, "acquire")
		})
}

func TestPausesGrow(t *testing.T) {
	for tries := 1; tries < 100; tries++ {
		most := maxTryPause
		if tries < 6 {
			most = minTryPause << (tries - 1)
		}
		for range 10 {
			if p := tryPause(tries); p > most || p < most-most/4 {
				t.Errorf("after %d tries: %v, want up to %v", tries, p, most)
			}
		}
	}
}

// An earlyContext says that it ends a little earlier than it does.
type earlyContext struct{ context.Context }

func (c earlyContext) Deadline() (time.Time, bool) {
	deadline, ok := c.Context.Deadline()
	return deadline.Add(-time.Millisecond), ok
}

// atDeadline lets each script fail at the deadline of its context, as a connection does that heeds it.
var atDeadline = scriptHook(func(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		deadline, ok := ctx.Deadline()
		if !ok {
			return next(ctx, cmd)
		}
		time.Sleep(time.Until(deadline))
		cmd.SetErr(os.ErrDeadlineExceeded)
		return os.ErrDeadlineExceeded
	}
})

// A redis client that heeds contexts has its connections fail at the context's deadline, perhaps before the context ends.
func TestACallThatOnlyTriesReturnsTheEndOfItsContext(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.e.rdb.AddHook(atDeadline)
		ctx, cancel := context.WithTimeout(b.Context(), 20*time.Millisecond)
		defer cancel()
		a := b.requester(core.Exclusive)
		a.Wait = 0
		if _, err := b.e.Acquire(earlyContext{ctx}, &a.Request); !errors.Is(err, context.DeadlineExceeded) {
			b.Error(err)
		}
		time.Sleep(time.Minute)
		b.wantFree()
	})
}

// The end of one caller's time says nothing about the server. A call that fails open would otherwise work without the lock.
func TestTheTimeOfAnotherCallerIsNoOutage(t *testing.T) {
	inBubble(t, func(b *bubble) {
		var works atomic.Bool
		b.e.rdb.AddHook(scriptHook(func(next redis.ProcessHook) redis.ProcessHook {
			fails := atDeadline(next)
			return func(ctx context.Context, cmd redis.Cmder) error {
				if works.Load() {
					return next(ctx, cmd)
				}
				return fails(ctx, cmd)
			}
		}))
		first := b.callFor(20 * time.Millisecond)
		open := b.requester(core.Exclusive)
		open.FailOpen, open.Wait = true, 5*time.Second
		second := b.call(b.e, open)
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			b.Error(err)
		}
		works.Store(true)
		synctest.Wait()
		b.release(b.wantGranted("the second", second))
	})
}
