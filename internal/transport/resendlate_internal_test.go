package transport

import (
	"testing"
	"testing/synctest"
	"time"
)

// Either node may answer first.
func TestEachAnswerAfterTheFirstComesAsLate(t *testing.T) {
	for _, first := range []string{"old", "new"} {
		inDeposedCluster(t, func(c *deposedCluster, s *Sender) {
			c.slow = time.Minute
			answers, late := make(chan any, 9), make(chan any, 9)
			k, _ := newCounted(func(r *Reply) { answers <- r.values[0] })
			k.Late = func(r *Reply) { late <- r.values[0] }
			s.Start(k)
			synctest.Wait()
			c.depose(s)
			if first == "new" {
				time.Sleep(c.slow)
			}
			close(c.wakes)
			synctest.Wait()
			time.Sleep(c.slow)
			synctest.Wait()
			if got := <-answers; got != first || len(answers) != 0 || len(late) != 1 {
				t.Fatalf("the answer is %v, and %d more; %d came late", got, len(answers), len(late))
			}
			if got := <-late; got == first {
				t.Errorf("%v came again", got)
			}
		})
	}
}
