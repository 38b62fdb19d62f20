package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

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
		if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
	})
}
