package tracing

import (
	"runtime/debug"
	"sync"

	"go.opentelemetry.io/otel/attribute"
)

// ScopeName is the instrumentation scope of the spans and metrics.
const ScopeName = "github.com/lockmw/go/tracing"

const (
	spanAcquire = "acquire_lock"
	spanHold    = "hold_lock"
)

const (
	attrName            = attribute.Key("distributed_lock.name")
	attrOperation       = attribute.Key("distributed_lock.operation")
	attrMode            = attribute.Key("distributed_lock.mode")
	attrKey             = attribute.Key("distributed_lock.key")
	attrLabel           = attribute.Key("distributed_lock.label")
	attrLease           = attribute.Key("distributed_lock.lease.duration")
	attrToken           = attribute.Key("distributed_lock.fencing_token")
	attrOutcome         = attribute.Key("distributed_lock.outcome")
	attrContended       = attribute.Key("distributed_lock.contended")
	attrPosition        = attribute.Key("distributed_lock.queue.position")
	attrHolderTrace     = attribute.Key("distributed_lock.holder.trace_id")
	attrHolderSpan      = attribute.Key("distributed_lock.holder.span_id")
	attrHolderLabel     = attribute.Key("distributed_lock.holder.label")
	attrRenewals        = attribute.Key("distributed_lock.renewals")
	attrWaitersReleased = attribute.Key("distributed_lock.waiters_at_release")
	attrErrorType       = attribute.Key("error.type")

	attrIdempotentOutcome = attribute.Key("distributed_lock.idempotent_call.outcome") // of the caller's span
)

const (
	metricWait     = "distributed_lock.wait.duration"
	metricHold     = "distributed_lock.hold.duration"
	metricWaiters  = "distributed_lock.waiters"
	metricHeld     = "distributed_lock.held"
	metricRenewals = "distributed_lock.renewals"
	metricCalls    = "distributed_lock.idempotent_calls"
)

const modulePath = "github.com/lockmw/go"

// Version returns the version of this module, for the instrumentation scope: "v1.2.3", or "(devel)" if
// the build does not record it.
func Version() string { return version() }

var version = sync.OnceValue(func() string {
	const unknown = "(devel)"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == modulePath && m.Version != "" {
			return m.Version
		}
	}
	return unknown
})
