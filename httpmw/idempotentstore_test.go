package httpmw_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// A testStore keeps records of keys that are used by one run at a time, and can fail. It is also the Locker.
type testStore struct {
	lockmw.LockerFunc
	ends   func(idempotency.End) error // called before a run ends
	begins func(context.Context) error // called before a run begins
	looks  func() error

	mu      sync.Mutex
	records map[string]idempotency.Record
}

func newTestStore() *testStore {
	return &testStore{LockerFunc: lockmw.NewLocal().Lock, records: make(map[string]idempotency.Record)}
}

func (s *testStore) locker() lockmw.Locker { return s }

// state returns the state of a key of scoped.
func (s *testStore) state(id string) idempotency.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[idempotency.Key{Scope: "secret-42", ID: id}.LockKey()].State
}

func (s *testStore) Look(_ context.Context, key string) (idempotency.Record, error) {
	if s.looks != nil {
		if err := s.looks(); err != nil {
			return idempotency.Record{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[key], nil
}

func (s *testStore) Begin(ctx context.Context, c idempotency.Claim) (idempotency.Record, error) {
	if s.begins != nil {
		if err := s.begins(ctx); err != nil {
			return idempotency.Record{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.records[c.Key]; r.State == idempotency.None {
		s.records[c.Key] = idempotency.Record{State: idempotency.Open, Fingerprint: c.Fingerprint, Run: c.Run, Token: c.Token}
	}
	return s.records[c.Key], nil
}

func (s *testStore) End(_ context.Context, e idempotency.End) (bool, error) {
	if s.ends != nil {
		if err := s.ends(e); err != nil {
			return false, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[e.Key]
	if r.Run != e.Run {
		return false, nil
	}
	switch e.Outcome {
	case idempotency.Keep:
		r.State, r.Answer = idempotency.Done, e.Answer
	case idempotency.Forget:
		r = idempotency.Record{}
	case idempotency.Leave:
	}
	s.records[e.Key] = r
	return true, nil
}

func (s *testStore) Void(_ context.Context, key, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, key)
	return nil
}

var errAway = errors.New("the store is away")

// Work whose answer could not be recorded must not be answered with a success.
func TestAnAnswerThatIsNotRecorded(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]httpmw.IdempotentOption{
		"at the end": nil, "at a flush": {httpmw.WithStreaming()}, "with an error handler": {httpmw.WithErrorHandler(httpmw.WriteError)},
	} {
		t.Run(name, func(t *testing.T) {
			store := newTestStore()
			store.ends = func(idempotency.End) error { return errAway }
			var runs atomic.Int32
			h := once(store, func(w http.ResponseWriter, r *http.Request) {
				counted(&runs)(w, r)
				w.Header().Set("Set-Cookie", "a=b")
				err := http.NewResponseController(w).Flush()
				if (err != nil) != (name == "at a flush") || err != nil && !errors.Is(err, idempotency.ErrNotRecorded) {
					t.Errorf("the flush: %v", err)
				}
				if _, err := w.Write([]byte("more")); (err != nil) != (name == "at a flush") {
					t.Errorf("the write: %v", err)
				}
				if err := r.Context().Err(); (err != nil) != (name == "at a flush") {
					t.Errorf("the context: %v", err)
				}
			}, opts...)
			rec := serve(h, keyed("k-1", ""))
			wantIdemProblem(t, rec, 500, "idempotency-maybe-done", true)
			if rec.Header().Get("Location") != "" || rec.Header().Get("Set-Cookie") != "" {
				t.Errorf("header %v", rec.Header())
			}
			store.ends = nil
			wantIdemProblem(t, serve(h, keyed("k-1", "")), 409, "idempotency-unknown-outcome", false)
		})
	}
}

// The handler's answer stays if only the end of its run is not recorded.
func TestAnErrorThatIsNotRecorded(t *testing.T) {
	t.Parallel()
	store := newTestStore()
	store.ends = func(idempotency.End) error { return errAway }
	for _, status := range []int{404, 502} {
		h := once(store, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		if rec := serve(h, keyed(http.StatusText(status)[:3], "")); rec.Code != status {
			t.Errorf("status %d", rec.Code)
		}
	}
}

func TestAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	store := newTestStore()
	h := once(store, never(t).ServeHTTP)
	store.looks = func() error { return errAway }
	wantIdemProblem(t, serve(h, keyed("k-1", "")), 503, "lock-unavailable", true)
	store.looks, store.begins = nil, func(context.Context) error { return errAway }
	wantIdemProblem(t, serve(h, keyed("k-1", "")), 503, "lock-unavailable", true)
	store.begins = func(context.Context) error { return idempotency.ErrSuperseded } // the lock was lost before the run began
	wantIdemProblem(t, serve(h, keyed("k-1", "")), 503, "lock-unavailable", true)
}
