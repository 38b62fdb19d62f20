package lockmw_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/semaphore"
)

// Metrics have one series for each name.
func TestLocksHaveFewNames(t *testing.T) {
	t.Parallel()
	var log usertest.Output
	names := make(map[string]int)
	c := usertest.Client(t, redistest.Mini(t), lockmw.WithLogger(log.Logger()), lockmw.WithObserver(&lockmw.Observer{
		Start: func(ctx context.Context, a lockmw.Attempt) context.Context { names[a.Name]++; return ctx },
	}))
	for _, l := range []lockmw.Locker{c, fairlock.New(c), semaphore.New(c, 2)} {
		for i := range 150 {
			for _, key := range []string{fmt.Sprintf("user-%d:x", i), fmt.Sprint(i)} {
				if _, hold, err := l.Lock(t.Context(), key); err != nil || hold.Unlock() != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if _, hold, err := c.Lock(t.Context(), "late:1", lockmw.WithName("payments")); err != nil || hold.Unlock() != nil {
		t.Fatal(err)
	}
	if len(names) != 100+3 || names["lock"] != 450 || names["other"] != 150 || names["user-0"] != 3 || names["payments"] != 1 {
		t.Errorf("%d names: %v", len(names), names)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "level=WARN") || strings.Contains(log.String(), "user-") {
		t.Errorf("want one line without a key: %s", log.String())
	}
}
