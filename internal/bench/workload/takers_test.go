package workload

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/bench/exclusion"
	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/lockmw"
)

// fakes maps each key to the fate of its waiter.
type fakes map[string]fake

// A fake lets its waiter wait until free is closed, and then fails with err unless that is nil.
type fake struct {
	free chan struct{}
	err  error
}

func (f fakes) LockAnnounced(ctx context.Context, key string, waiting func()) (library.Hold, error) {
	waiting()
	select {
	case <-f[key].free:
		return f[key], nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f fakes) Lock(context.Context, string) (library.Hold, error) { return nil, errors.ErrUnsupported }
func (f fakes) Close() error                                       { return nil }

func (f fake) Unlock() error { return f.err }

// taken makes a waiter of each key wait, closes free, and returns the report after the limit at the latest.
func taken(t *testing.T, f fakes, limit time.Duration, free chan struct{}) (r Report, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page")
	if err := exclusion.Create(path, len(f)); err != nil {
		t.Fatal(err)
	}
	page, err := exclusion.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	var keys []string
	for key := range f {
		keys = append(keys, key)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := newTakers(f, page, keys)
	w.start(ctx)
	if n := w.queued.await(time.Minute); n != int64(len(f)) {
		t.Errorf("%d of %d waited", n, len(f))
	}
	w.begin()
	close(free)
	err = w.serve(limit, &r)
	cancel()
	w.ended.await(time.Minute)
	return r, err
}

func TestAllThatAreServedAreReportedWithoutWaitingForTheLimit(t *testing.T) {
	free := make(chan struct{})
	r, err := taken(t, fakes{"a": {free: free}, "b": {free: free}}, time.Hour, free)
	if err != nil {
		t.Fatal(err)
	}
	if r.Pairs != 2 || r.More[ServedShare] != 1 || r.Latency.Count() != 2 || r.More[FailedCalls] != 0 {
		t.Errorf("the report is %+v", r)
	}
}

func TestTheLimitEndsWaitersThatAreNotServed(t *testing.T) {
	const limit = 50 * time.Millisecond
	free, never := make(chan struct{}), make(chan struct{})
	r, err := taken(t, fakes{"a": {free: free}, "b": {free: never}, "c": {free: never}, "d": {free: free}}, limit, free)
	if err != nil {
		t.Fatal(err)
	}
	if r.Pairs != 2 || r.More[ServedShare] != 0.5 || r.Elapsed < limit || r.More[ServedMillis] < 50 || r.Latency.Count() != 2 {
		t.Errorf("the report is %+v", r)
	}
	// Two grants make three gaps, the last of which ends with the limit.
	if gap := r.More[LongestGap]; gap < r.More[ServedMillis]/3 {
		t.Errorf("the longest gap is %v ms of %v", gap, r.More[ServedMillis])
	}
}

func TestAnOverloadedServerIsCountedAndOtherFailuresAreErrors(t *testing.T) {
	free := make(chan struct{})
	r, err := taken(t, fakes{"a": {free, lockmw.ErrUnavailable}, "b": {free, nil}}, time.Hour, free)
	if err != nil || r.More[FailedCalls] != 1 || r.Pairs != 2 {
		t.Errorf("overload: %+v, %v", r, err)
	}
	wrong := errors.New("no luck")
	free = make(chan struct{})
	if _, err := taken(t, fakes{"a": {free, wrong}}, time.Hour, free); !errors.Is(err, wrong) || !strings.Contains(err.Error(), "1 of 1") {
		t.Errorf("another failure: %v", err)
	}
}

func TestTheLongestGapIsFoundBetweenGrants(t *testing.T) {
	w := newTakers(nil, nil, []string{"a", "b", "c"})
	begun := time.Now()
	w.begun, w.last = begun, begun
	for _, after := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 60 * time.Millisecond} {
		w.granted(begun.Add(after))
	}
	if w.gap != 40*time.Millisecond || w.waits.Max().Round(time.Millisecond) != 60*time.Millisecond {
		t.Errorf("the longest gap is %v, the longest wait %v", w.gap, w.waits.Max())
	}
}
