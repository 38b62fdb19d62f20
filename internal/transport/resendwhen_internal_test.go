package transport

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// go-redis may wait forever for the answer, and nothing else may be in flight.
func TestALateAnswerLeadsToAQuestionForTheMasters(t *testing.T) {
	for _, after := range []time.Duration{lateAnswer, time.Hour} { // however late the other node has its place
		inDeposedCluster(t, func(c *deposedCluster, s *Sender) {
			defer close(c.wakes)
			answers, _ := startCall(s)
			time.Sleep(after)
			c.master.Store(c.promoted)
			time.Sleep(2 * reloadInterval)
			synctest.Wait()
			if len(answers) != 1 {
				t.Fatalf("%v: %d answers", after, len(answers))
			}
		})
	}
}

func TestNoQuestionWhileAnswersAreInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &askedCluster{}
		s := NewSender(c, Topology{Cluster: true}, time.Second, Replicas{})
		defer s.Stop()
		for range 100 {
			k, _ := newCounted(func(*Reply) {})
			k.open = &openCall{call: k}
			s.mu.Lock()
			s.noteOpen(k)
			s.mu.Unlock()
			time.Sleep(lateAnswer / 10)
			s.answer(k, &Reply{})
		}
		if n := c.asked.Load(); n > 0 {
			t.Errorf("asked %d times", n)
		}
	})
}

// A staleCluster answers the first question late, with the state at the time of the question.
type staleCluster struct {
	*deposedCluster
	asked atomic.Int32
	stale chan struct{} // closed: the first one is answered
}

func (c *staleCluster) ForEachMaster(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	master := c.master.Load()
	if c.asked.Add(1) == 1 {
		<-c.stale
	}
	return f(ctx, master)
}

// Questions do not wait for each other, so an answer may be older than the previous one.
func TestAnOlderAnswerIsIgnored(t *testing.T) {
	inDeposedCluster(t, func(c *deposedCluster, s *Sender) {
		stale := &staleCluster{deposedCluster: c, stale: make(chan struct{})}
		s.cluster = stale
		s.NoteLateAnswer()
		time.Sleep(reloadInterval / 2)
		c.depose(s)
		c.slow = time.Minute
		answers, _ := startCall(s)
		asked := stale.asked.Load()
		close(stale.stale)
		synctest.Wait()
		if n := c.sent[c.promoted].Load(); n != 1 {
			t.Errorf("it was sent %d times", n)
		}
		time.Sleep(10 * reloadTime)
		if stale.asked.Load() == asked {
			t.Error("go-redis uses it, and is not made to ask again")
		}
		<-answers
	})
}

// A node that was reset, or has just joined, answers in this way.
func TestAnAnswerWithoutMastersIsIgnored(t *testing.T) {
	inDeposedCluster(t, func(c *deposedCluster, s *Sender) {
		answers, _ := startCall(s)
		s.cluster = emptyCluster{c}
		s.ReloadSlots()
		time.Sleep(2 * reloadInterval)
		close(c.wakes)
		<-answers
		if n := c.sent[c.old].Load(); n != 1 {
			t.Errorf("it was sent %d times", n)
		}
	})
}

type emptyCluster struct{ *deposedCluster }

func (emptyCluster) ForEachMaster(context.Context, func(context.Context, *redis.Client) error) error {
	return nil
}
