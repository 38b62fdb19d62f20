package script

import (
	"testing"
	"testing/synctest"
	"time"
)

// go-redis may wait for the answer for ever, and nothing else may be under way.
func TestAnAnswerThatIsLateHasItAskedWhoIsMaster(t *testing.T) {
	for _, after := range []time.Duration{lateAnswer, time.Hour} { // however late the other node has its place
		inDeposedCluster(t, func(c *deposedCluster, s *Sender) {
			defer close(c.wakes)
			answers, _ := startRelease(s)
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

func TestNobodyIsAskedWhileAnswersAreInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &askedCluster{}
		s := NewSender(c, Topology{Cluster: true}, time.Second, Replicas{})
		defer s.Stop()
		for range 100 {
			k, _ := newRelease(func(*Reply) {})
			k.open = &open{call: k}
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
