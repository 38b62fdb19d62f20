package transport

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/clock"
)

// onTrickle runs a test with a Trickle whose server takes so long to answer.
func onTrickle(t *testing.T, takes func(n int) time.Duration, test func(t *testing.T, k *Trickle, s *pacedServer)) {
	t.Helper()
	onPacer(t, takes, func(t *testing.T, p *Pacer, s *pacedServer) { test(t, NewTrickle(p.s), s) })
}

// trickle adds n calls.
func (t *Trickle) trickle(n int) (all []*pacedCall) {
	due := make([]Due, n)
	for i := range due {
		c := &pacedCall{timeout: time.Second}
		all = append(all, c)
		due[i] = Due{Key: "key", Call: c}
	}
	t.Add(due)
	return all
}

func TestATrickleTakesLittleOfTheTimeOfAServer(t *testing.T) {
	onTrickle(t, millisecond, func(t *testing.T, k *Trickle, s *pacedServer) {
		const pipelines = 20
		calls := k.trickle(pipelines * maxTrickled)
		for half := range 2 {
			time.Sleep(pipelines / 2 * (1 + trickleShare) * time.Millisecond)
			synctest.Wait()
			want := (half + 1) * pipelines / 2
			pipelines, most := s.seen()
			if n := len(pipelines); n < want || n > want+1 || most != 1 {
				t.Errorf("%d pipelines, %d at a time, want %d, one after the other", n, most, want)
			}
		}
		for i, c := range calls {
			if c.sent.IsZero() {
				t.Fatalf("call %d of %d was not sent", i, len(calls))
			}
		}
	})
}

func TestAnIdleTrickleSendsImmediately(t *testing.T) {
	onTrickle(t, millisecond, func(t *testing.T, k *Trickle, _ *pacedServer) {
		for range 3 {
			c := k.trickle(1)[0]
			added := clock.Now()
			time.Sleep(time.Minute)
			synctest.Wait()
			if c.sent != added {
				t.Errorf("sent after %v", c.sent.Sub(added))
			}
		}
		if len(k.queues) != 0 {
			t.Error("a queue has not ended")
		}
	})
}

func TestATrickleContinuesBehindAPipelineWithoutAnAnswer(t *testing.T) {
	silentFirst := func(n int) time.Duration {
		if n == 0 {
			return time.Hour
		}
		return time.Millisecond
	}
	onTrickle(t, silentFirst, func(t *testing.T, k *Trickle, s *pacedServer) {
		s.deaf = true
		k.trickle(1)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		next := k.trickle(1)[0]
		time.Sleep(trickleLate + time.Millisecond)
		synctest.Wait()
		if next.sent.IsZero() {
			t.Error("the next call has not been sent")
		}
	})
}

func TestCallsToASilentNodeAreDropped(t *testing.T) {
	onTrickle(t, func(int) time.Duration { return time.Hour }, func(t *testing.T, k *Trickle, s *pacedServer) {
		s.deaf = true
		for range maxTrickles {
			k.trickle(1)
			time.Sleep(trickleLate + 2*maxTricklePause) // nothing waits any more, and the queue must not begin anew
			synctest.Wait()
		}
		last := k.trickle(1)[0]
		time.Sleep(2 * maxTricklePause)
		synctest.Wait()
		pipelines, _ := s.seen()
		if !last.dropped || !last.sent.IsZero() || len(pipelines) != maxTrickles {
			t.Errorf("after %d pipelines without an answer one more call was not dropped", len(pipelines))
		}
	})
}

// A poll of a ticket must not wait for pipelines to an unreachable node, because another node may have its slot by now.
func TestAPacerDropsCallsToASilentNode(t *testing.T) {
	onPacer(t, func(int) time.Duration { return time.Hour }, func(t *testing.T, p *Pacer, s *pacedServer) {
		s.deaf = true
		for range maxUnanswered {
			p.add(1, time.Second, time.Second, time.Second)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		last := p.add(1, time.Second, time.Second, time.Second)[0]
		time.Sleep(time.Second)
		synctest.Wait()
		pipelines, _ := s.seen()
		if !last.dropped || !last.sent.IsZero() || len(pipelines) != maxUnanswered {
			t.Errorf("after %d pipelines without an answer one more call was not dropped", len(pipelines))
		}
	})
}
