package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/semaphore"
)

// queued lists the keys that Queued yields, with their waiters.
func queued(t *testing.T, i *lockmw.Inspector, also ...string) (found []string) {
	t.Helper()
	for s, err := range i.Queued(t.Context(), also, lockmw.WithShare(1)) {
		if err != nil {
			t.Error(err)
		}
		found = append(found, fmt.Sprint(s.Key, " ", s.Waiting()))
	}
	slices.Sort(found)
	return found
}

func TestAnInspectorFindsTheKeysThatCallsWaitFor(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		holder, waiter := usertest.Client(t, s, lockmw.WithPrefix("shop[1]")), usertest.Client(t, s, lockmw.WithPrefix("shop[1]"))
		inspector := usertest.Inspector(t, s.NewClient(t), lockmw.WithPrefix("shop[1]"))
		if inspector.Prefix() != "shop[1]" {
			t.Errorf("the prefix is %q", inspector.Prefix())
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait := func(l lockmw.Locker, key string) {
			contended, waits := usertest.OnContended(t)
			done := make(chan struct{})
			go func() {
				defer close(done)
				if _, hold, err := l.Lock(ctx, key, contended); err == nil {
					_ = hold.Unlock()
				}
			}()
			t.Cleanup(func() { cancel(); <-done })
			waits()
		}
		for _, key := range []string{"free of waiters", "also", "plain {1}", "fair", "write:queue", "read"} {
			usertest.Occupy(t, holder, key)
		}
		usertest.Occupy(t, semaphore.New(holder, 1), "permits")
		wait(waiter, "plain {1}")
		wait(fairlock.New(waiter), "fair")
		wait(rwlock.New(waiter), "write:queue")
		wait(rwlock.New(waiter).RLocker(), "read")
		wait(semaphore.New(waiter, 1), "permits")
		want := []string{"also 0", "fair 1", "permits 1", "plain {1} 1", "read 1", "write:queue 1"}
		if got := queued(t, inspector, "also", "fair", "not there"); !slices.Equal(got, want) {
			t.Errorf("it finds %q, want %q", got, want)
		}
		for s, err := range inspector.Queued(t.Context(), nil) {
			if s.Key == "" || err != nil {
				t.Errorf("%+v, %v", s, err)
			}
			break // it ends where the caller does
		}
	})
}

func TestAnInspectorSaysWhatTheServerIs(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	inspector := usertest.Inspector(t, s.NewClient(t))
	servers, err := inspector.Servers(t.Context())
	if err != nil || len(servers) != 1 {
		t.Fatalf("%+v, %v", servers, err)
	}
	one := servers[0]
	if one.Addr != s.Addr() || one.Software == "" || one.Version == "" || one.Mode != "standalone" || one.Role != "master" || one.UsedMemory <= 0 ||
		one.MaxMemory != 100<<20 || one.EvictionPolicy != "allkeys-lru" || one.Latency <= 0 || one.InfoErr != nil {
		t.Errorf("it is %+v", one)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.NewClient(t).Do(ctx, "ACL", "SETUSER", "default", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	if servers, err := inspector.Servers(ctx); err != nil || len(servers) != 1 || servers[0].InfoErr == nil || servers[0].Latency <= 0 {
		t.Errorf("without INFO it is %+v, %v", servers, err)
	}
	s.Kill()
	if servers, err := inspector.Servers(ctx); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("without a server it is %+v, %v", servers, err)
	}
}

func TestAnInspectorReadsSomeKeys(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		locks, other := usertest.Client(t, s), usertest.Client(t, s)
		usertest.Occupy(t, locks, "a")
		usertest.Occupy(t, locks, "b")
		usertest.Occupy(t, locks, "c")
		ctx, cancel := context.WithCancel(t.Context())
		contended, waits := usertest.OnContended(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _, _ = other.Lock(ctx, "b", contended)
		}()
		t.Cleanup(func() { cancel(); <-done })
		waits()
		inspector := usertest.Inspector(t, s.NewClient(t))
		var read []string
		for status, err := range inspector.Read(t.Context(), []string{"a", "free", "b", "a"}, lockmw.WithShare(1)) {
			if err != nil {
				t.Fatal(err)
			}
			read = append(read, status.Key)
			for _, w := range status.Waiters {
				if w.Seen.Before(w.Since.Truncate(time.Millisecond)) || time.Since(w.Seen) > time.Minute {
					t.Errorf("a waiter since %v was seen %v", w.Since, w.Seen)
				}
			}
		}
		if slices.Sort(read); !slices.Equal(read, []string{"a", "b"}) {
			t.Errorf("it reads %q", read)
		}
		for _, err := range inspector.Read(t.Context(), []string{"a"}, lockmw.WithShare(2)) {
			if !errors.Is(err, lockmw.ErrInvalidOption) {
				t.Errorf("with a share of 2: %v", err)
			}
		}
	})
}
