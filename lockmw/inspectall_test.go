package lockmw_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestAScanTakesItsOptions(t *testing.T) {
	rdb := redistest.Mini(t).NewClient(t)
	locks := usertest.ClientOf(t, rdb)
	defer locks.Close()
	if _, _, err := locks.Lock(t.Context(), "user:42"); err != nil {
		t.Fatal(err)
	}
	inspector := usertest.Inspector(t, rdb)
	var told lockmw.ScanProgress
	found := 0
	for s, err := range inspector.All(t.Context(), lockmw.WithShare(1), lockmw.WithScanProgress(func(p lockmw.ScanProgress) { told = p })) {
		if err != nil || s.Key != "user:42" {
			t.Errorf("it finds %+v, %v", s, err)
		}
		found++
	}
	if found != 1 || told != (lockmw.ScanProgress{Locks: 1, Part: 1}) {
		t.Errorf("it finds %d locks, and tells %+v", found, told)
	}
	for what, o := range map[string]lockmw.ScanOption{
		"no share": lockmw.WithShare(0), "more than all": lockmw.WithShare(1.1), "no function": lockmw.WithScanProgress(nil), "nil": nil,
	} {
		for s, err := range inspector.All(t.Context(), o) {
			if s.Key != "" || !errors.Is(err, lockmw.ErrInvalidOption) {
				t.Errorf("%s: it yields %+v, %v", what, s, err)
			}
		}
	}
}

func TestKeptScansAtItsShareOfTheTime(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		rdb := s.NewClient(t)
		const answer = 10 * time.Millisecond
		inspector := usertest.Inspector(t, rdb)
		if _, err := inspector.Kept(t.Context(), "user:42"); err != nil { // it connects
			t.Fatal(err)
		}
		rdb.AddHook(redistest.Hook(func(_ context.Context, _ []redis.Cmder, send func() error) error {
			time.Sleep(answer)
			return send()
		}))
		for share, opts := range map[int][]lockmw.ScanOption{4: nil, 2: {lockmw.WithShare(0.5)}} {
			began := time.Now()
			if kept, err := inspector.Kept(t.Context(), "user:42", opts...); err != nil || len(kept) > 0 {
				t.Fatal(kept, err)
			}
			// One page of SCAN, and a status.
			if got, want := time.Since(began), time.Duration(share+1)*answer; got.Round(time.Millisecond) != want {
				t.Errorf("with a share of 1/%d it takes %v, want %v", share, got, want)
			}
		}
		if _, err := inspector.Kept(t.Context(), "user:42", lockmw.WithShare(0)); !errors.Is(err, lockmw.ErrInvalidOption) {
			t.Errorf("without a share, %v", err)
		}
	})
}
