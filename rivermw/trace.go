package rivermw

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/internal/jobtrace"
	"github.com/lockmw/go/internal/option"
)

// traceKey is the field of a job's metadata with the trace context of the insert.
const traceKey = "lockmw_trace"

// A TraceOption configures Trace.
type TraceOption func(*Tracing)

// WithProcessLink starts a trace for each attempt of a job, with a link to the span that inserted it. Default: the attempt is part
// of that span's trace. Links suit jobs that run long after they were inserted, or so often that one trace would be too large to
// read.
func WithProcessLink() TraceOption { return func(t *Tracing) { t.tracer.Link = true } }

// Tracing is a plugin for river.Config: see Trace. It is safe for concurrent use.
type Tracing struct {
	river.MiddlewareDefaults

	tracer *jobtrace.Tracer
}

// Trace returns a plugin for the Plugins of river.Config that carries traces through jobs. The client that inserts a job stores the
// trace context in the job's metadata, in the field lockmw_trace. The client that runs it makes an OpenTelemetry span of kind
// CONSUMER for each attempt, whose parent is the span of the insert. Use it in both clients.
//
// river runs the plugins of a client inside the middleware of its workers. So return the plugin also from the Middleware method of
// workers with a lock, in front of the lock: otherwise the wait is not in the span, and a snoozed attempt has none.
//
//	func (w *InvoiceWorker) Middleware(*rivertype.JobRow) []rivertype.WorkerMiddleware {
//		return []rivertype.WorkerMiddleware{w.trace, w.lock}
//	}
//
// An attempt has one span, however often it meets the plugin.
//
// The span is named "process " and the job's kind. An attempt that fails or panics sets its status to Error. An attempt that only
// snoozes the job, because of a busy lock or by river.JobSnooze, does not; it has the attribute river.job.snoozed.
//
// If tp is nil, the global provider is used. The propagator is otel's global one, or W3C trace context and baggage if none is set.
// Trace panics if tp is a nil pointer or an option is nil.
func Trace(tp trace.TracerProvider, opts ...TraceOption) *Tracing {
	t := &Tracing{tracer: jobtrace.New("rivermw", tp)}
	option.Apply(t, "rivermw: Trace", opts)
	return t
}

// InsertMany stores the trace context of ctx in the metadata of the jobs. river calls it.
func (*Tracing) InsertMany(ctx context.Context, jobs []*rivertype.JobInsertParams, next func(context.Context) ([]*rivertype.JobInsertResult, error)) ([]*rivertype.JobInsertResult, error) {
	carrier := jobtrace.Inject(ctx)
	for _, job := range jobs {
		if len(carrier) == 0 {
			break
		}
		var metadata map[string]json.RawMessage // unlike any, it keeps the digits of numbers
		if len(job.Metadata) > 0 && json.Unmarshal(job.Metadata, &metadata) != nil {
			continue // river reports it
		}
		if metadata == nil {
			metadata = make(map[string]json.RawMessage)
		}
		var err error
		if metadata[traceKey], err = json.Marshal(carrier); err == nil {
			job.Metadata, err = json.Marshal(metadata)
		}
		if err != nil {
			return nil, err
		}
	}
	return next(ctx)
}

// processed is the key of the attempt in whose span a context is.
type processed struct{}

// Work processes a job in a span. river calls it.
func (t *Tracing) Work(ctx context.Context, job *rivertype.JobRow, next func(context.Context) error) error {
	if ctx.Value(processed{}) == job {
		return next(ctx)
	}
	ctx, span := t.start(context.WithValue(ctx, processed{}, job), job)
	return jobtrace.Run(ctx, span, snoozed, next)
}

// start begins the span of an attempt.
func (t *Tracing) start(ctx context.Context, job *rivertype.JobRow) (context.Context, trace.Span) {
	var metadata struct {
		Trace propagation.MapCarrier `json:"lockmw_trace"`
	}
	_ = json.Unmarshal(job.Metadata, &metadata) // without a trace context the attempt starts a trace
	return t.tracer.Start(ctx, metadata.Trace, job.Kind,
		// OpenTelemetry's conventions for messaging
		attribute.String("messaging.system", "river"),
		attribute.String("messaging.operation.name", "process"),
		attribute.String("messaging.operation.type", "process"),
		attribute.String("messaging.destination.name", job.Queue),
		attribute.String("messaging.message.id", strconv.FormatInt(job.ID, 10)),
		attribute.String("river.job.kind", job.Kind),
		attribute.Int("river.job.attempt", job.Attempt),
	)
}

// snoozed returns the attribute of an attempt that only snoozed its job, because of a busy lock or because the worker says so.
func snoozed(err error) (attribute.KeyValue, bool) {
	_, ok := errors.AsType[*river.JobSnoozeError](err)
	return attribute.Bool("river.job.snoozed", true), ok
}
