package tracing_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

const (
	callOutcome = attribute.Key("distributed_lock.idempotent_call.outcome")
	callMetric  = "distributed_lock.idempotent_calls"
)

// Texts that no attribute may contain.
const secretScope, secretID = "scope-marker", "id-marker"

// A work is what a call runs, if it runs: it returns nil for a success.
type work func(context.Context) error

var errNoStock = errors.New("no stock")

func succeeds(context.Context) error        { return nil }
func fails(context.Context) error           { return errNoStock }
func panics(context.Context) error          { panic("a bug") }
func doesNothing(ctx context.Context) error { idempotency.NotDone(ctx); return nil }
func mayNotRun(context.Context) error       { panic("the work runs again") }

// callers call a Runner in the three ways that there are.
var callers = map[string]func(once *idempotency.Runner, policy idempotency.Policy) func(ctx context.Context, request string, w work){
	"Do": func(once *idempotency.Runner, policy idempotency.Policy) func(context.Context, string, work) {
		return func(ctx context.Context, request string, w work) {
			_, _ = idempotency.Do(ctx, once, idempotency.Key{Scope: secretScope, ID: secretID}, request, policy,
				func(ctx context.Context, in string) (string, error) { return in, w(ctx) })
		}
	},
	"HTTP": func(once *idempotency.Runner, policy idempotency.Policy) func(context.Context, string, work) {
		scope := func(*http.Request) (string, error) { return secretScope, nil }
		return func(ctx context.Context, request string, w work) {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/orders", strings.NewReader(request))
			r.Header.Set("Idempotency-Key", secretID)
			httpmw.Idempotent(once, scope, policy)(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if w(r.Context()) != nil {
					rw.WriteHeader(http.StatusInternalServerError)
				}
				_, _ = io.WriteString(rw, "done")
			})).ServeHTTP(httptest.NewRecorder(), r)
		}
	},
	"asynq": func(once *idempotency.Runner, _ idempotency.Policy) func(context.Context, string, work) {
		key := func(context.Context, *asynq.Task) (idempotency.Key, error) {
			return idempotency.Key{Scope: secretScope, ID: secretID}, nil
		}
		return func(ctx context.Context, request string, w work) {
			_ = asynqmw.Deduplicate(once, key)(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
				return w(ctx)
			})).ProcessTask(ctx, asynq.NewTask("order:fulfil", []byte(request)))
		}
	},
}

// An idempotentCall is a call of one of the callers, in a span of its own.
type idempotentCall struct {
	*telemetry
	local  *lockmw.Local
	locker lockmw.Locker
	opts   []idempotency.Option
	policy idempotency.Policy
	caller string
	counts map[string]int64 // by the last call
}

func newIdempotentCall(m *telemetry, caller string) *idempotentCall {
	local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
	return &idempotentCall{telemetry: m, local: local, locker: local, policy: idempotency.Refuse, caller: caller}
}

func (c *idempotentCall) in(ctx context.Context, span, request string, w work) {
	ctx, s := c.tracer.Start(ctx, span)
	defer s.End()
	defer func() { _ = recover() }()
	callers[c.caller](idempotency.New(c.locker, c.opts...), c.policy)(ctx, request, w)
}

// counted returns how many calls have ended, by outcome.
func (c *idempotentCall) counted() map[string]int64 {
	counts := make(map[string]int64)
	for _, o := range observe.CallOutcomes {
		if n := c.sum(callMetric, outcome(string(o)), attribute.String("distributed_lock.name", "idem")); n != 0 {
			counts[string(o)] = n
		}
	}
	return counts
}

// last makes the call whose outcome is tested.
func (c *idempotentCall) last(ctx context.Context, request string, w work) {
	before := c.counted()
	c.in(ctx, "last", request, w)
	c.counts = c.counted()
	for o, n := range before {
		if c.counts[o] -= n; c.counts[o] == 0 {
			delete(c.counts, o)
		}
	}
}

// withStore gives the Runner a Store, and a Locker that knows no observers.
func (c *idempotentCall) withStore(s idempotency.Store) {
	c.locker = lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		ctx, hold := lockmw.NewHold(ctx, key, 1, func(context.Context) error { return nil })
		return ctx, hold, nil
	})
	c.opts = append(c.opts, idempotency.WithStore(s), idempotency.WithLockOptions(lockmw.WithObserver(c.observer)))
}

// A cannedStore answers each Begin with a record in one state, and each Look with an error if it has one.
type cannedStore struct {
	idempotency.Store
	state idempotency.State
	look  error
	end   error
}

func (s *cannedStore) Look(context.Context, string) (idempotency.Record, error) {
	return idempotency.Record{}, s.look
}

func (s *cannedStore) Begin(_ context.Context, c idempotency.Claim) (idempotency.Record, error) {
	return idempotency.Record{State: s.state, Run: c.Run, Fingerprint: c.Fingerprint}, nil
}

func (s *cannedStore) End(context.Context, idempotency.End) (bool, error) { return s.end == nil, s.end }

// endings say how each outcome comes about, which is the first word of the name.
var endings = map[string]func(t *testing.T, c *idempotentCall){
	"kept":      func(t *testing.T, c *idempotentCall) { c.last(t.Context(), "tea", succeeds) },
	"forgotten": func(t *testing.T, c *idempotentCall) { c.last(t.Context(), "tea", doesNothing) },
	"unfinished, a failure": func(t *testing.T, c *idempotentCall) {
		c.last(t.Context(), "tea", fails)
	},
	"unfinished, a panic": func(t *testing.T, c *idempotentCall) {
		c.last(t.Context(), "tea", panics)
	},
	"unfinished, not recorded": func(t *testing.T, c *idempotentCall) {
		c.withStore(&cannedStore{state: idempotency.Open, end: errNoStock})
		c.last(t.Context(), "tea", succeeds)
	},
	"unfinished, not forgotten": func(t *testing.T, c *idempotentCall) {
		c.withStore(&cannedStore{state: idempotency.Open, end: errNoStock})
		c.last(t.Context(), "tea", doesNothing)
	},
	"replayed": func(t *testing.T, c *idempotentCall) {
		c.in(t.Context(), "first", "tea", succeeds)
		c.last(t.Context(), "tea", mayNotRun)
	},
	"done": func(t *testing.T, c *idempotentCall) {
		c.withStore(&cannedStore{state: idempotency.Committed})
		c.last(t.Context(), "tea", mayNotRun)
	},
	"done, without a body": func(t *testing.T, c *idempotentCall) {
		if c.caller == "asynq" {
			t.Skip("the answer of a task has no body")
		}
		c.opts = append(c.opts, idempotency.WithMaxBody(0))
		c.in(t.Context(), "first", "tea", succeeds)
		c.last(t.Context(), "tea", mayNotRun)
	},
	"reused": func(t *testing.T, c *idempotentCall) {
		c.in(t.Context(), "first", "tea", succeeds)
		c.last(t.Context(), "coffee", mayNotRun)
	},
	"in_flight": func(t *testing.T, c *idempotentCall) {
		c.opts = append(c.opts, idempotency.WithWait(0))
		c.in(t.Context(), "first", "tea", func(context.Context) error {
			c.last(t.Context(), "tea", mayNotRun)
			return nil
		})
	},
	"unknown": func(t *testing.T, c *idempotentCall) {
		c.policy = idempotency.RunAgain
		resume, begun := make(chan struct{}), make(chan string)
		var silent sync.WaitGroup
		t.Cleanup(func() { close(resume); silent.Wait() })
		for range 3 { // that never return, as far as the next call knows
			silent.Go(func() {
				c.in(t.Context(), "first", "tea", func(ctx context.Context) error {
					run, _ := idempotency.FromContext(ctx)
					begun <- run.LockKey()
					<-resume
					return errNoStock
				})
			})
			c.local.Expire(<-begun)
		}
		c.last(t.Context(), "tea", mayNotRun)
	},
	"expired": func(t *testing.T, c *idempotentCall) {
		c.opts = append(c.opts, idempotency.WithKeyTime(func(idempotency.Key) (time.Time, bool) { return time.Unix(0, 0), true }))
		c.last(t.Context(), "tea", mayNotRun)
	},
	"canceled": func(t *testing.T, c *idempotentCall) {
		if c.caller == "HTTP" {
			t.Skip("the middleware refuses the request itself")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c.last(ctx, "tea", mayNotRun)
	},
	"canceled, in a wait": func(t *testing.T, c *idempotentCall) {
		if c.caller == "asynq" {
			t.Skip("a task outside of a server does not wait")
		}
		contended, waits := usertest.OnContended(t)
		c.opts = append(c.opts, idempotency.WithLockOptions(contended))
		ctx, cancel := context.WithCancel(t.Context())
		c.in(t.Context(), "first", "tea", func(context.Context) error {
			var repetition sync.WaitGroup
			repetition.Go(func() { c.last(ctx, "tea", mayNotRun) })
			waits()
			cancel()
			repetition.Wait()
			return nil
		})
	},
	"error": func(t *testing.T, c *idempotentCall) {
		c.withStore(&cannedStore{look: errNoStock})
		c.last(t.Context(), "tea", mayNotRun)
	},
}

func TestEachCallOfIdempotencyReportsItsOutcomeOnce(t *testing.T) {
	for caller := range callers {
		seen := make(map[string]bool)
		for name, end := range endings {
			want, _, _ := strings.Cut(name, ",")
			seen[want] = true
			t.Run(caller+"/"+name, func(t *testing.T) {
				c := newIdempotentCall(newTelemetry(t), caller)
				end(t, c)
				if len(c.counts) != 1 || c.counts[want] != 1 {
					t.Errorf("counted as %v, want one %s", c.counts, want)
				}
				span := c.span("last")
				if got := attributesOf(span)[callOutcome]; got != want {
					t.Errorf("the outcome of the span is %v, want %s", got, want)
				}
				if span.Status().Code != codes.Unset {
					t.Errorf("the status of the caller's span is %v", span.Status())
				}
				for _, s := range c.spans.Ended() {
					if s.Name() == "hold_lock idem" && !s.Parent().IsValid() {
						t.Error("the span of the lock has no parent")
					}
				}
				c.wantNoSecrets(t)
			})
		}
		for _, o := range observe.CallOutcomes {
			if !seen[string(o)] {
				t.Errorf("no test has the outcome %s", o)
			}
		}
	}
}

// wantNoSecrets fails the test if an attribute contains the scope or the ID.
func (c *idempotentCall) wantNoSecrets(t *testing.T) {
	t.Helper()
	var d disclosure
	for _, s := range c.spans.Ended() {
		d.span(tracetest.SpanStubFromReadOnlySpan(s))
	}
	for _, m := range c.collect() {
		d.metric(m)
	}
	for _, secret := range []string{secretScope, secretID} {
		if places := d.in(secret); len(places) > 0 {
			t.Errorf("%s is in %q", secret, places)
		}
	}
}

func TestTheSpansOfARunAreChildrenOfTheCallersSpan(t *testing.T) {
	c := newIdempotentCall(newTelemetry(t), "Do")
	c.in(t.Context(), "caller", "tea", succeeds)
	caller := c.span("caller").SpanContext()
	for _, name := range []string{"acquire_lock idem", "hold_lock idem"} {
		s := c.span(name)
		if s.Parent().SpanID() != caller.SpanID() {
			t.Errorf("%s is no child of the caller's span", name)
		}
		if _, set := attributesOf(s)[callOutcome]; set {
			t.Errorf("%s has the outcome of the call", name)
		}
	}
}

func TestCallsOfIdempotencyFollowTheOptions(t *testing.T) {
	name := idempotency.WithLockOptions(lockmw.WithName("orders"))
	t.Run("WithName and WithAttributes", func(t *testing.T) {
		zone := attribute.String("zone", "a")
		c := newIdempotentCall(newTelemetry(t, tracing.WithAttributes(zone)), "Do")
		c.opts = append(c.opts, name)
		c.in(t.Context(), "caller", "tea", succeeds)
		if n := c.sum(callMetric, zone, attribute.String("distributed_lock.name", "orders")); n != 1 {
			t.Errorf("%d calls are counted, want 1", n)
		}
	})
	t.Run("WithFilter", func(t *testing.T) {
		seen := make(map[string]string)
		c := newIdempotentCall(newTelemetry(t, tracing.WithFilter(func(_ context.Context, a lockmw.Attempt) bool {
			seen[a.Op] = a.Name + " " + a.Key
			return false
		})), "Do")
		c.opts = append(c.opts, name)
		c.in(t.Context(), "caller", "tea", succeeds)
		if want := "orders " + (idempotency.Key{Scope: secretScope, ID: secretID}).LockKey(); seen["idempotent"] != want || seen["lock"] != want {
			t.Errorf("the filter gets %v", seen)
		}
		if _, set := attributesOf(c.span("caller"))[callOutcome]; set || c.metric(callMetric) != nil {
			t.Error("a call is reported although the filter leaves it out")
		}
	})
	t.Run("no spans", func(t *testing.T) {
		c := newIdempotentCall(newTelemetry(t, tracing.WithTracerProvider(tracenoop.NewTracerProvider())), "Do")
		c.last(t.Context(), "tea", succeeds)
		if _, set := attributesOf(c.span("last"))[callOutcome]; set || c.counts["kept"] != 1 {
			t.Errorf("the span has the outcome: %v; counted: %v", set, c.counts)
		}
	})
}

func TestAnInvalidOrNestedCallIsNotReported(t *testing.T) {
	c := newIdempotentCall(newTelemetry(t), "HTTP")
	c.last(t.Context(), "tea", func(ctx context.Context) error {
		c.in(ctx, "nested", "tea", succeeds)
		return nil
	})
	once := idempotency.New(c.locker)
	for _, key := range []idempotency.Key{{ID: "no scope"}, {Scope: "no ID"}} {
		if _, err := once.Begin(t.Context(), key, key.Fingerprint(), idempotency.Refuse); !errors.Is(err, lockmw.ErrInvalidKey) {
			t.Error(err)
		}
	}
	if got := c.counted(); len(got) != 1 || got["kept"] != 1 {
		t.Errorf("counted as %v, want only the outer call", got)
	}
}

func TestAllocationsOfACallOfIdempotency(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	noMetrics, noSpans := tracing.WithMeterProvider(metricnoop.NewMeterProvider()), tracing.WithTracerProvider(tracenoop.NewTracerProvider())
	replays := func(opts ...lockmw.Option) float64 {
		once, key := idempotency.New(lockmw.NewLocal(opts...)), idempotency.Key{Scope: secretScope, ID: secretID}
		return testing.AllocsPerRun(100, func() {
			_, err := idempotency.Do(context.Background(), once, key, "tea", idempotency.Refuse, func(_ context.Context, in string) (string, error) { return in, nil })
			if err != nil {
				t.Error(err)
			}
		})
	}
	none := replays()
	if observed := replays(lockmw.WithObserver(&lockmw.Observer{Idempotent: func(context.Context, lockmw.Attempt, lockmw.IdempotentCall) {}})); observed <= none {
		t.Errorf("%v allocations for a replay without an observer, and %v with one", none, observed)
	}
	for name, o := range map[string]*lockmw.Observer{
		"no callback": {Released: func(context.Context, lockmw.Attempt, lockmw.Release) {}},
		"noop":        tracing.New(noSpans, noMetrics),
	} {
		if got := replays(lockmw.WithObserver(o)); got != none {
			t.Errorf("%s: %v allocations for a replay, want %v as without an observer", name, got, none)
		}
	}
}
