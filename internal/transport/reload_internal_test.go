package transport

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// An askedCluster counts the questions for slots. None of its nodes answers.
type askedCluster struct {
	*redis.ClusterClient
	asked atomic.Int32
	first chan struct{} // closed when it was asked; may be nil
}

func (c *askedCluster) ForEachMaster(context.Context, func(context.Context, *redis.Client) error) error {
	if c.asked.Add(1) == 1 && c.first != nil {
		close(c.first)
	}
	return io.EOF
}

func newAskedCluster(t *testing.T) *askedCluster {
	c := &askedCluster{first: make(chan struct{}), ClusterClient: redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"127.0.0.1:1"}, MaxRedirects: -1, DialerRetries: 1,
	})}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestSlotsAreAskedForWhenANodeIsUnreachable(t *testing.T) {
	const often = int32(reloadTime/reloadInterval) + 1
	for _, tt := range []struct {
		err   error
		asked int32
	}{
		{nil, 0},
		{io.EOF, often},
		{context.DeadlineExceeded, often},
		{reply("CLUSTERDOWN The cluster is down"), often},
		{context.Canceled, 0},
		{reply("READONLY You can't write against a read only replica."), 0},
		{reply("MOVED 8000 127.0.0.1:7001"), 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &askedCluster{}
			s := NewSender(c, Topology{Cluster: true}, time.Second, Replicas{})
			defer s.Stop()
			s.Note(tt.err)
			time.Sleep(2 * reloadTime)
			if n := c.asked.Load(); n < tt.asked-1 || n > tt.asked {
				t.Errorf("%v: asked %d times, want %d", tt.err, n, tt.asked)
			}
		})
	}
	alone := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer alone.Close()
	s := NewSender(alone, Topology{Single: true}, time.Second, Replicas{})
	defer s.Stop()
	s.Note(io.EOF) // asks no node
}

// The number of requests does not matter.
func TestSlotsAreNotAskedForAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &askedCluster{}
		s := NewSender(c, Topology{Cluster: true}, time.Second, Replicas{})
		defer s.Stop()
		for range 1000 {
			s.Note(io.EOF)
			s.ReloadSlots()
			time.Sleep(time.Millisecond)
		}
		if n := int64(c.asked.Load()); n > int64(time.Second/reloadInterval)+1 {
			t.Errorf("asked %d times in a second", n)
		}
	})
}

// The last question may have been answered before the change.
func TestSlotsAreAskedForAgainAfterEachRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &askedCluster{}
		s := NewSender(c, Topology{Cluster: true}, time.Second, Replicas{})
		defer s.Stop()
		for range 2 {
			s.ReloadSlots()
			synctest.Wait()
		}
		time.Sleep(10 * reloadInterval)
		if n := c.asked.Load(); n != 2 {
			t.Errorf("asked %d times, want 2", n)
		}
	})
}

// A hungCluster answers only the last question.
type hungCluster struct {
	*redis.ClusterClient
	asked, answered atomic.Int32
	hang            chan struct{}
}

func (c *hungCluster) ForEachMaster(context.Context, func(context.Context, *redis.Client) error) error {
	if c.asked.Add(1) < maxReloads {
		<-c.hang
	}
	c.answered.Add(1)
	return nil
}

func TestAnUnansweredQuestionDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &hungCluster{hang: make(chan struct{})}
		s := NewSender(c, Topology{Cluster: true}, time.Second, Replicas{})
		defer s.Stop()
		defer close(c.hang)
		s.Note(io.EOF)
		time.Sleep(maxReloads * reloadInterval)
		if c.answered.Load() == 0 {
			t.Errorf("none of %d questions was answered", c.asked.Load())
		}
	})
}

func TestCallsAndBatchesThatMeetNoNodeAskForSlots(t *testing.T) {
	for name, run := range map[string]func(s *Sender, calls []*Call){
		"call":     func(s *Sender, calls []*Call) { s.Start(calls[0]) },
		"pipeline": func(s *Sender, calls []*Call) { s.RunBatch(s.Context(), calls) },
		"batch script": func(s *Sender, calls []*Call) {
			s.SetBatching(true)
			s.RunBatch(s.Context(), calls)
		},
		"something else": func(s *Sender, calls []*Call) {
			s.Note(io.EOF)
			calls[0].done(&Reply{Err: errors.New("not sent")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newAskedCluster(t)
			s := NewSender(c, Topology{Cluster: true}, time.Second, Replicas{})
			one, many := NewScript("return 1"), &Batch{Script: NewScript("return {1}"), Keys: []int{FirstKey}}
			done := make(chan error, minBatch)
			var calls []*Call
			for range minBatch {
				k := NewCall(t.Context(), one, 1, func(r *Reply) { done <- r.Err })
				k.AddKeys("lockmw:{user:42}")
				k.Batch = many
				calls = append(calls, k)
			}
			run(s, calls)
			if err := <-done; err == nil || IsReply(err) {
				t.Errorf("the call's error is %v", err)
			}
			<-c.first
			s.Stop()
		})
	}
}
