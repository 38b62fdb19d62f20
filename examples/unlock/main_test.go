package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// shown is what is printed of all locks.
func shown(t *testing.T, s *redistest.Server) string {
	t.Helper()
	var out strings.Builder
	if err := run(t.Context(), &out, s.Addr(), "lockmw", "", 0); err != nil {
		t.Error(err)
	}
	return out.String()
}

func TestALockIsShownAndTakenAway(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		locks, err := lockmw.New(s.NewClient(t))
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		_, hold, err := locks.Lock(t.Context(), "user:42", lockmw.WithLabel("req-7"))
		if err != nil {
			t.Fatal(err)
		}
		shows := func(key string, force int64, wanted ...string) {
			t.Helper()
			var out strings.Builder
			if err := run(t.Context(), &out, s.Addr(), "lockmw", key, force); err != nil {
				t.Error(err)
			}
			for _, text := range wanted {
				if !strings.Contains(out.String(), text) {
					t.Errorf("%q is not shown:\n%s", text, out.String())
				}
			}
		}
		token := fmt.Sprintf("token %d", hold.Token())
		shows("", 0, "user:42: 1 hold, 0 wait", token, "for req-7")
		if err := run(t.Context(), io.Discard, s.Addr(), "lockmw", "user:42", hold.Token()-1); err == nil {
			t.Error("a token that no holder has is no error")
		}
		shows("user:42", 0, "user:42: 1 hold, 0 wait", token)
		ctx, leave := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() { _, _, _ = locks.Lock(ctx, "user:42") })
		}
		const behind = "exclusive  behind the holder  3 calls"
		for end := time.Now().Add(2 * time.Minute); !strings.Contains(shown(t, s), behind) && time.Now().Before(end); { // polling
			time.Sleep(10 * time.Millisecond)
		}
		shows("user:42", 0, "user:42: 1 hold, 3 wait", behind)
		leave()
		calls.Wait()
		for end := time.Now().Add(2 * time.Minute); strings.Contains(shown(t, s), behind) && time.Now().Before(end); { // polling
			time.Sleep(10 * time.Millisecond)
		}
		if _, _, err := fairlock.New(locks).TryLock(t.Context(), "user:42", lockmw.WithPlace("task 7", time.Minute)); !errors.Is(err, lockmw.ErrBusy) {
			t.Fatal(err)
		}
		shows("user:42", 0, "user:42: 1 hold, 0 wait", "away       task 7")
		shows("", 0, "away       task 7")
		if err := run(t.Context(), io.Discard, "http://"+s.Addr(), "lockmw", "user:42", 0); err == nil {
			t.Error("a URL that is not Redis' is no error")
		}
		if err := run(t.Context(), io.Discard, "redis://"+s.Addr()+"/0", "lockmw", "user:42", 0); err != nil {
			t.Errorf("a URL: %v", err)
		}
		shows("user:42", hold.Token(), "released")
		shows("user:42", 0, "user:42: 0 hold, 0 wait")
		_, click, err := locks.Lock(t.Context(), "user:43", lockmw.WithMinHold(time.Minute), lockmw.WithLabel("req-8"))
		if err != nil {
			t.Fatal(err)
		}
		shows("user:43", 0, "  lease ends in 30s  for req-8")
		if err := click.Unlock(); err != nil {
			t.Fatal(err)
		}
		shows("user:43", 0, "user:43: 0 hold, 0 wait", "  unlocked, kept taken for 1m0s  for req-8")
		if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
	})
}

// Whoever looks for locks with another prefix than theirs is told.
func TestOtherPrefixesAreShownIfNothingIsFound(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		locks, err := lockmw.New(s.NewClient(t), lockmw.WithPrefix("shop"))
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		_, hold, err := locks.Lock(t.Context(), "user:42")
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Unlock()
		for _, tt := range []struct {
			prefix, key string
			want        bool
		}{
			{"lockmw", "", true}, {"lockmw", "user:42", true}, {"shop", "", false}, {"shop", "user:42", false}, {"shop", "user:43", false},
		} {
			var out strings.Builder
			if err := run(t.Context(), &out, s.Addr(), tt.prefix, tt.key, 0); err != nil {
				t.Error(err)
			}
			if shown := strings.Contains(out.String(), "locks with the prefix shop"); shown != tt.want {
				t.Errorf("prefix %s, key %q: the other prefix is shown: %t, want %t:\n%s", tt.prefix, tt.key, shown, tt.want, out.String())
			}
		}
	})
}
