package rivermw_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rivermw"
)

// newTracer returns a provider and the spans that have ended.
func newTracer(t *testing.T) (*sdktrace.TracerProvider, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	t.Cleanup(func() { _ = tp.Shutdown(context.Background()) })
	return tp, spans
}

func TestATraceContinuesInTheJobThatItInserts(t *testing.T) {
	t.Parallel()
	for name, linked := range map[string]bool{"as a child": false, "with a link": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			tp, spans := newTracer(t)
			var opts []rivermw.TraceOption
			if linked {
				opts = append(opts, rivermw.WithProcessLink())
			}
			inside := make(chan trace.SpanContext, 1)
			w := &worker{
				middleware: []rivertype.WorkerMiddleware{rivermw.WithLock(lockmw.NewLocal(), byCustomer)},
				do: func(ctx context.Context, _ *river.Job[invoiceArgs]) error {
					inside <- trace.SpanContextFromContext(ctx)
					return nil
				},
			}
			client := d.start(d.client(w, func(c *river.Config) { c.Plugins = []rivertype.Plugin{rivermw.Trace(tp, opts...)} }))
			ctx, request := tp.Tracer("test").Start(t.Context(), "POST /invoices")
			res, err := client.Insert(ctx, invoiceArgs{Customer: "7"}, &river.InsertOpts{Metadata: []byte(`{"mine":12345678901234567890}`)})
			request.End()
			if err != nil {
				t.Fatal(err)
			}
			worker := receive(t, inside)
			done := awaitState(t, client, res.Job.ID, rivertype.JobStateCompleted)
			if text := string(done.Metadata); !strings.Contains(text, `"mine": 12345678901234567890`) || !strings.Contains(text, request.SpanContext().TraceID().String()) {
				t.Errorf("metadata %s", text)
			}
			eventually(t, func() error {
				if n := len(spans.Ended()); n < 2 {
					return fmt.Errorf("%d spans have ended", n)
				}
				return nil
			})
			ended := spans.Ended()
			span := ended[slices.IndexFunc(ended, func(s sdktrace.ReadOnlySpan) bool { return s.Name() == "process invoice" })]
			if span.SpanKind() != trace.SpanKindConsumer || worker.SpanID() != span.SpanContext().SpanID() {
				t.Errorf("span %q of kind %v", span.Name(), span.SpanKind())
			}
			from := request.SpanContext()
			switch {
			case !linked && span.Parent().SpanID() != from.SpanID():
				t.Error("the job's span is not a child of the request's")
			case linked && (span.Parent().IsValid() || len(span.Links()) != 1 || span.Links()[0].SpanContext.SpanID() != from.SpanID()):
				t.Errorf("parent %v, links %v, want one link", span.Parent(), span.Links())
			}
		})
	}
}

// river runs plugins inside the middleware of a worker, so the worker also returns the plugin.
func TestASpanOfAnAttemptCoversTheWaitForItsLock(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	tp, spans := newTracer(t)
	waits := make(chan trace.SpanContext, 10)
	observer := lockmw.WithObserver(&lockmw.Observer{Start: func(ctx context.Context, a lockmw.Attempt) context.Context {
		if a.Policy.Label != "river-waker" {
			waits <- trace.SpanContextFromContext(ctx)
		}
		return ctx
	}})
	local, tracing := lockmw.NewLocal(), rivermw.Trace(tp)
	hold := occupy(t, local, "7")
	w, ran := locked(local, lockmw.WithWait(0), rivermw.WithWaker(d.waker()), observer)
	w.middleware = append([]rivertype.WorkerMiddleware{tracing}, w.middleware...)
	client := d.start(d.client(w, func(c *river.Config) { c.Plugins = []rivertype.Plugin{tracing} }))
	id := insert(t, client, "7")
	await(t, client, id, "snoozed", isSnoozed)
	release(t, hold)
	receive(t, ran)
	awaitState(t, client, id, rivertype.JobStateCompleted)
	attempts := make(map[trace.SpanID]bool) // whether each was snoozed
	eventually(t, func() error {
		for _, span := range spans.Ended() {
			attrs := attribute.NewSet(span.Attributes()...)
			snoozed, _ := attrs.Value("river.job.snoozed")
			attempts[span.SpanContext().SpanID()] = snoozed.AsBool()
		}
		if len(attempts) < 2 {
			return fmt.Errorf("%d spans have ended", len(attempts))
		}
		return nil
	})
	for _, snoozed := range []bool{true, false} {
		if got, ok := attempts[receive(t, waits).SpanID()]; !ok || got != snoozed {
			t.Errorf("a wait is in the span of an attempt: %t, which was snoozed: %t, want %t", ok, got, snoozed)
		}
	}
	if len(attempts) != 2 {
		t.Errorf("%d spans for 2 attempts", len(attempts))
	}
}

func TestTheStatusOfAJobsSpan(t *testing.T) {
	local := lockmw.NewLocal()
	defer release(t, occupy(t, local, "7"))
	lock := func(action rivermw.BusyAction) rivertype.WorkerMiddleware {
		return rivermw.WithLock(local, byCustomer, lockmw.WithWait(0), rivermw.WithOnBusy(action))
	}
	for name, tt := range map[string]struct {
		next    func(context.Context) error
		code    codes.Code
		snoozed bool
	}{
		"success":                {func(context.Context) error { return nil }, codes.Unset, false},
		"a failure":              {func(context.Context) error { return errors.New("broken") }, codes.Error, false},
		"a snooze of the worker": {func(context.Context) error { return fmt.Errorf("no stock: %w", river.JobSnooze(time.Minute)) }, codes.Unset, true},
		"a panic":                {func(context.Context) error { panic("a bug") }, codes.Error, false},
		"a busy lock": {func(ctx context.Context) error {
			return lock(rivermw.Snooze).Work(ctx, row(`{"customer":"7"}`), never(t))
		},
			codes.Unset, true},
		"a busy lock that fails the attempt": {func(ctx context.Context) error {
			return lock(rivermw.Fail).Work(ctx, row(`{"customer":"7"}`), never(t))
		},
			codes.Error, false},
	} {
		tp, spans := newTracer(t)
		func() {
			defer func() { _ = recover() }()
			_ = rivermw.Trace(tp).Work(t.Context(), row(`{}`), tt.next)
		}()
		if n := len(spans.Ended()); n != 1 {
			t.Fatalf("%s: %d spans ended", name, n)
		}
		span := spans.Ended()[0]
		if span.Status().Code != tt.code || strings.Contains(span.Status().Description, "customer:7") {
			t.Errorf("%s: status %+v, want %v without the key", name, span.Status(), tt.code)
		}
		attrs := attribute.NewSet(span.Attributes()...)
		if got, _ := attrs.Value("river.job.snoozed"); got.AsBool() != tt.snoozed {
			t.Errorf("%s: snoozed is %t", name, got.AsBool())
		}
	}
}

func TestMetadataThatIsNoObjectIsLeftToRiver(t *testing.T) {
	tp, _ := newTracer(t)
	ctx, span := tp.Tracer("test").Start(t.Context(), "request")
	defer span.End()
	job := &rivertype.JobInsertParams{Metadata: []byte(`[1]`)}
	_, err := rivermw.Trace(tp).InsertMany(ctx, []*rivertype.JobInsertParams{job}, func(context.Context) ([]*rivertype.JobInsertResult, error) { return nil, nil })
	if err != nil || string(job.Metadata) != `[1]` {
		t.Errorf("metadata %s, %v", job.Metadata, err)
	}
}
