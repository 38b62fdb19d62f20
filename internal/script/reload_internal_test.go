package script

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

// An askedCluster counts how often it is asked who has which slots. None of its nodes answers.
type askedCluster struct {
	*redis.ClusterClient
	asked atomic.Int32
}

func (c *askedCluster) ReloadState(context.Context) { c.asked.Add(1) }

func newAskedCluster(t *testing.T) *askedCluster {
	c := &askedCluster{ClusterClient: redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"127.0.0.1:1"}, MaxRedirects: -1, DialerRetries: 1,
	})}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestSlotsAreAskedForWhenANodeIsAway(t *testing.T) {
	for _, tt := range []struct {
		err   error
		asked int32
	}{
		{nil, 0},
		{io.EOF, 1},
		{context.DeadlineExceeded, 1},
		{reply("CLUSTERDOWN The cluster is down"), 1},
		{context.Canceled, 0},
		{reply("READONLY You can't write against a read only replica."), 0},
		{reply("MOVED 8000 127.0.0.1:7001"), 0},
	} {
		c := newAskedCluster(t)
		if newReload(c).after(tt.err); c.asked.Load() != tt.asked {
			t.Errorf("%v: asked %d times, want %d", tt.err, c.asked.Load(), tt.asked)
		}
	}
	newReload(&redis.Client{}).after(io.EOF) // asks nobody
}

func TestSlotsAreNotAskedForAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &askedCluster{}
		r := newReload(c)
		for range 1000 {
			r.after(io.EOF)
			time.Sleep(time.Millisecond)
		}
		if n := int64(c.asked.Load()); n != int64(time.Second/reloadInterval) {
			t.Errorf("asked %d times in a second", n)
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
			defer s.Stop()
			layout, stem := NewLayout("lockmw", true), IDStem("process.")
			keys := layout.KeySet("user:42")
			scripts := NewSet(DefaultParams(false))
			done := make(chan error, minBatch)
			var calls []*Call
			for n := range uint64(minBatch) {
				r := Release{Keys: &keys, ID: stem.New(n)}
				calls = append(calls, r.Call(t.Context(), scripts, func(r *Reply) { done <- r.Err }))
			}
			run(s, calls)
			if err := <-done; err == nil || IsReply(err) {
				t.Errorf("the call's error is %v", err)
			}
			if c.asked.Load() == 0 {
				t.Error("nobody was asked")
			}
		})
	}
}
