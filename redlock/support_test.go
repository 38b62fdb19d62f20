package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/redlock"
)

// three starts three servers.
func three(t *testing.T, args ...string) []*redistest.Server { return servers(t, 3, args...) }

func servers(t *testing.T, n int, args ...string) (all []*redistest.Server) {
	t.Helper()
	for range n {
		all = append(all, redistest.Redis(t, args...))
	}
	return all
}

// clients returns a Client for each server. edit may change the options of each redis client.
func clients(t *testing.T, all []*redistest.Server, edit func(i int, o *redis.Options), opts ...lockmw.ClientOption) (nodes []*lockmw.Client) {
	t.Helper()
	for i, s := range all {
		c, err := lockmw.New(s.NewClient(t, func(o *redis.Options) {
			if edit != nil {
				edit(i, o)
			}
		}), opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		nodes = append(nodes, c)
	}
	return nodes
}

// locker returns a Locker over the servers, as in a new process.
func locker(t *testing.T, all []*redistest.Server, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	return newLocker(t, clients(t, all, nil), opts...)
}

func newLocker(t *testing.T, nodes []*lockmw.Client, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	l := redlock.New(nodes, opts...)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// lock takes a lock, and fails the test if that takes longer than patience.
func lock(t *testing.T, l lockmw.Locker, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold) {
	t.Helper()
	return usertest.Lock(t, t.Context(), l, key, append(opts, lockmw.WithWait(patience))...)
}

// patience is how long a test waits for an expected event on a busy machine.
const patience = 2 * time.Minute
