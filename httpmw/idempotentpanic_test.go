package httpmw_test

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A brokenLog panics with its first line.
type brokenLog struct {
	slog.Handler
	lines atomic.Int32
}

func (l *brokenLog) Handle(context.Context, slog.Record) error {
	if l.lines.Add(1) == 1 {
		panic("a bug")
	}
	return nil
}

// Other code than the handler may panic, too. If the lock stayed, repetitions would wait for a run that has ended.
func TestAPanicOfOtherCodeIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	breaks := httpmw.WithKept(func(int) bool { panic("a bug") })
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		opts    []httpmw.IdempotentOption
		breaks  bool // the log does
	}{
		"WithKept":                         {status(201), []httpmw.IdempotentOption{breaks}, false},
		"WithKept, at a flush":             {func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, []httpmw.IdempotentOption{breaks, httpmw.WithStreaming()}, false},
		"the log, after a failure":         {status(500), nil, true},
		"the log, after a handler's panic": {func(http.ResponseWriter, *http.Request) { panic("another") }, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &brokenLog{Handler: slog.DiscardHandler}
			if !tt.breaks {
				log.lines.Add(1)
			}
			locks := usertest.Client(t, redistest.Mini(t), lockmw.WithLogger(slog.New(log)))
			var runs atomic.Int32
			h := httpmw.Idempotent(idempotency.New(locks, idempotency.WithWait(0)), scoped, idempotency.Refuse, tt.opts...)(
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { runs.Add(1); tt.handler(w, r) }))
			aborted(h, keyed("k-1", ""))
			wantIdemProblem(t, serve(h, keyed("k-1", "")), 409, "idempotency-unknown-outcome", false)
			if runs.Load() != 1 {
				t.Errorf("%d runs", runs.Load())
			}
		})
	}
}
