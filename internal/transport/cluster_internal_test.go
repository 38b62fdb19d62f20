package transport

import (
	"context"
	"encoding"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// A deposedCluster has a master that answers only on demand, and from some time on another master in its place.
type deposedCluster struct {
	*redis.ClusterClient
	old, promoted *redis.Client
	master        atomic.Pointer[redis.Client]
	wakes         chan struct{} // close it to make the old one answer
	slow          time.Duration // that the new one takes to answer
	sent          map[*redis.Client]*atomic.Int32
}

func inDeposedCluster(t *testing.T, test func(c *deposedCluster, s *Sender)) {
	synctest.Test(t, func(t *testing.T) {
		c := &deposedCluster{
			old: &redis.Client{}, promoted: &redis.Client{}, wakes: make(chan struct{}), sent: make(map[*redis.Client]*atomic.Int32),
		}
		for _, node := range []*redis.Client{c.old, c.promoted} {
			c.sent[node] = new(atomic.Int32)
		}
		c.master.Store(c.old)
		s := NewSender(c, Topology{Cluster: true}, time.Second, Replicas{})
		s.Note(nil) // the Cluster is in sight
		test(c, s)
		s.Stop()
	})
}

func (c *deposedCluster) MasterForKey(context.Context, string) (*redis.Client, error) {
	return c.master.Load(), nil
}

func (c *deposedCluster) ForEachMaster(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	return f(ctx, c.master.Load())
}

func (c *deposedCluster) Process(_ context.Context, cmd redis.Cmder) error {
	node := c.master.Load()
	c.sent[node].Add(1)
	answer := "new"
	if node == c.old {
		<-c.wakes
		answer = "old"
	} else {
		time.Sleep(c.slow)
	}
	for _, arg := range cmd.Args() {
		if m, ok := arg.(encoding.BinaryMarshaler); ok {
			_, _ = m.MarshalBinary() // as it is written, late
		}
	}
	cmd.(*redis.Cmd).SetVal(answer)
	return nil
}

// depose puts the other node into the old one's place, which the Cluster reports soon.
func (c *deposedCluster) depose(s *Sender) {
	c.master.Store(c.promoted)
	s.ReloadSlots()
	time.Sleep(2 * reloadInterval)
	synctest.Wait()
}

// A counted is an argument that counts how often it was written.
type counted struct{ atomic.Int32 }

// MarshalBinary is called by go-redis when it writes the command.
func (c *counted) MarshalBinary() ([]byte, error) {
	c.Add(1)
	return []byte("id"), nil
}

// startCall starts a call, and returns its answers and the count of its copies.
func startCall(s *Sender) (answers chan any, copies *counted) {
	answers = make(chan any, 9)
	k, copies := newCounted(func(r *Reply) { answers <- r.values[0] })
	s.Start(k)
	synctest.Wait()
	return answers, copies
}

func newCounted(done func(*Reply)) (*Call, *counted) {
	k, copies := NewCall(context.Background(), NewScript("return 1"), 2, done), new(counted)
	k.AddKeys("lockmw:{user:42}")
	k.Add(copies)
	k.Copies = copies
	return k, copies
}

func TestCallsLeftUnansweredByADeposedNodeAreSentToTheNewOne(t *testing.T) {
	inDeposedCluster(t, func(c *deposedCluster, s *Sender) {
		answers, copies := startCall(s)
		c.depose(s)
		if len(answers) != 1 {
			t.Fatalf("%d answers", len(answers))
		}
		if got := <-answers; got != "new" {
			t.Errorf("the answer is %v", got)
		}
		if copies.Load() < 2 {
			t.Error("it counts as sent once")
		}
		c.depose(s)
		if n := c.sent[c.promoted].Load(); n != 1 {
			t.Errorf("it was sent %d times", n)
		}
		close(c.wakes)
		synctest.Wait()
		if len(answers) != 0 {
			t.Errorf("it was answered again: %v", <-answers)
		}
	})
}

// Questions for the masters are repeated in the meantime.
func TestACallIsSentAgainOnce(t *testing.T) {
	inDeposedCluster(t, func(c *deposedCluster, s *Sender) {
		c.slow = time.Minute
		answers, _ := startCall(s)
		s.NoteLateAnswer()
		c.depose(s)
		<-answers
		close(c.wakes)
		if n := c.sent[c.promoted].Load(); n != 1 {
			t.Errorf("it was sent %d times", n)
		}
	})
}

func TestADeposedNodeIsReportedOnce(t *testing.T) {
	inDeposedCluster(t, func(c *deposedCluster, s *Sender) {
		close(c.wakes)
		told := 0
		s.Observe(nil, func() { told++ })
		s.nodes.Store(c.old, &sendQueue{}) // it was used
		s.ReloadSlots()
		time.Sleep(2 * reloadInterval)
		if told != 0 {
			t.Error("the node is reported though it is a master")
		}
		c.depose(s)
		c.depose(s)
		if told != 1 {
			t.Errorf("it was reported %d times", told)
		}
	})
}

func TestTheFirstAnswerCountsEvenFromTheOldNode(t *testing.T) {
	inDeposedCluster(t, func(c *deposedCluster, s *Sender) {
		answers, _ := startCall(s)
		close(c.wakes)
		synctest.Wait()
		c.depose(s)
		if got := <-answers; got != "old" || len(answers) != 0 {
			t.Errorf("the answer is %v, and %d more", got, len(answers))
		}
		if n := c.sent[c.promoted].Load(); n != 0 {
			t.Errorf("it was sent %d times more", n)
		}
	})
}

func TestCallsToARemainingMasterAreNotSentAgain(t *testing.T) {
	inDeposedCluster(t, func(c *deposedCluster, s *Sender) {
		answers, copies := startCall(s)
		s.NoteLateAnswer()
		time.Sleep(2 * reloadTime)
		if n := c.sent[c.old].Load(); n != 1 || len(answers) != 0 || copies.Load() > 1 {
			t.Errorf("it was sent %d times", n)
		}
		close(c.wakes)
		<-answers
	})
}

// A call that has not gone out cannot have run.
func TestCallsThatWaitForADeposedNodeGoOnlyToTheNewOne(t *testing.T) {
	inDeposedCluster(t, func(c *deposedCluster, s *Sender) {
		s.Pause()
		answers, copies := startCall(s)
		c.depose(s)
		close(c.wakes)
		s.Resume()
		synctest.Wait()
		if got := <-answers; got != "new" || len(answers) != 0 {
			t.Errorf("the answer is %v, and %d more", got, len(answers))
		}
		if c.sent[c.old].Load() != 0 || copies.Load() > 1 {
			t.Error("it was sent twice")
		}
	})
}

// It may have gathered behind another call while a copy of it went out.
func TestACallThatACopyHasAnsweredIsNotSentAnyMore(t *testing.T) {
	inDeposedCluster(t, func(c *deposedCluster, s *Sender) {
		close(c.wakes)
		s.Pause()
		k, _ := newCounted(func(*Reply) {})
		s.Start(k)
		s.Start(k.open.copy())
		s.answer(k, &Reply{})
		s.Resume()
		if n := c.sent[c.old].Load(); n != 0 {
			t.Errorf("a call with an answer is sent %d times", n)
		}
	})
}
