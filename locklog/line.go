package locklog

import (
	"cmp"
	"context"
	"encoding/hex"
	"log/slog"
	"slices"
	"time"

	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/lockmw"
)

const (
	msgStillWaiting  = "lockmw: still waiting"
	msgSlowWait      = "lockmw: slow wait"
	msgFailed        = "lockmw: lock failed"
	msgFailedOpen    = "lockmw: failed open"
	msgStillHeld     = "lockmw: still held"
	msgLongHold      = "lockmw: long hold"
	msgRenewalFailed = "lockmw: renewal failed"
	msgReleaseFailed = "lockmw: release failed"
	msgLost          = "lockmw: lock lost"
)

// loggerFor returns the logger, or nil if it is not enabled for level.
func (r *reporter) loggerFor(ctx context.Context, level slog.Level) *slog.Logger {
	logger := cmp.Or(r.logger, slog.Default())
	if !logger.Enabled(ctx, level) {
		return nil
	}
	return logger
}

// logWait logs a wait that has ended. seen is the queue that it met. missed is the number of calls that failed in the same way
// and were not logged.
func (r *reporter) logWait(
	ctx context.Context, message string, a *lockmw.Attempt, s *attempt, seen lockmw.Contention, err error, missed int,
) {
	logger := r.loggerFor(ctx, slog.LevelWarn)
	if logger == nil {
		return
	}
	lock := append(r.describe(a, s.Token), slog.Duration("waited", s.Waited), slog.String("outcome", observe.OutcomeOf(err).String()))
	lock = describeQueue(lock, &seen)
	failure := appendKnown(r.describeError(err), slog.Int("suppressed", missed))
	r.write(ctx, logger, slog.LevelWarn, message, lock, describeHolder(seen.Holders), failure)
}

// logWaiting logs a wait that continues.
func (r *reporter) logWaiting(m *moment) {
	logger := r.loggerFor(m.ctx, slog.LevelWarn)
	if logger == nil {
		return
	}
	lock := describeQueue(append(r.describe(&m.call, 0), slog.Duration("waited", time.Since(m.since))), &m.seen)
	r.write(m.ctx, logger, slog.LevelWarn, msgStillWaiting, lock, describeHolder(m.seen.Holders), nil)
}

// logHold logs a hold that has lasted for held. end is nil unless the hold was released.
func (r *reporter) logHold(
	ctx context.Context, level slog.Level, message string, a *lockmw.Attempt, s *attempt,
	held time.Duration, end *lockmw.Release, err error,
) {
	logger := r.loggerFor(ctx, level)
	if logger == nil {
		return
	}
	lock := append(r.describe(a, s.Token), slog.Duration("held", held))
	if end != nil {
		lock = append(lock, slog.Int("waiters", end.Waiters))
	}
	r.write(ctx, logger, level, message, lock, nil, r.describeError(err))
}

func (r *reporter) write(
	ctx context.Context, logger *slog.Logger, level slog.Level, message string, lock, holder, failure []slog.Attr,
) {
	groups := make([]slog.Attr, 0, 3)
	groups = append(groups, slog.GroupAttrs("lock", lock...))
	if len(holder) > 0 {
		groups = append(groups, slog.GroupAttrs("holder", holder...))
	}
	if len(failure) > 0 {
		groups = append(groups, slog.GroupAttrs("error", failure...))
	}
	logger.LogAttrs(ctx, level, message, groups...)
}

// unknown values are not logged.
var unknown = []slog.Value{slog.StringValue(""), slog.Int64Value(0), slog.TimeValue(time.Time{})}

// appendKnown adds the attributes whose values are known.
func appendKnown(attrs []slog.Attr, more ...slog.Attr) []slog.Attr {
	for _, a := range more {
		if !slices.ContainsFunc(unknown, a.Value.Equal) {
			attrs = append(attrs, a)
		}
	}
	return attrs
}

// describe returns the attributes of all lines, with capacity for further ones.
func (r *reporter) describe(a *lockmw.Attempt, token int64) []slog.Attr {
	attrs := make([]slog.Attr, 0, 10)
	attrs = append(attrs,
		slog.String("name", a.Name), slog.String("operation", a.Op), slog.String("mode", a.Mode))
	return appendKnown(attrs, slog.String("key", r.shownKey(a.Key)), slog.String("label", a.Policy.Label), slog.Int64("token", token))
}

// describeQueue adds the attributes of the queue that a call met.
func describeQueue(attrs []slog.Attr, seen *lockmw.Contention) []slog.Attr {
	return appendKnown(attrs, slog.Int("position", seen.Position), slog.Int("waiters", seen.Waiters), slog.Int("holders", len(seen.Holders)))
}

// shownKey calls the function of WithKeyRedactor. It does not show the value of a panic, which may contain the key.
func (r *reporter) shownKey(key string) (shown string) {
	defer func() {
		if recover() != nil {
			shown = "!PANIC" // as slog's handlers show a LogValue that panics
		}
	}()
	return r.redactKey(key)
}

// describeHolder returns the attributes of the holder that has held the lock longest.
func describeHolder(holders []lockmw.Holder) []slog.Attr {
	if len(holders) == 0 {
		return nil
	}
	h := &holders[0]
	for i := range holders {
		if other := &holders[i]; !other.Since.IsZero() && (h.Since.IsZero() || other.Since.Before(h.Since)) {
			h = other
		}
	}
	var traceID string
	if p, ok := observe.ParseTraceParent(h.TraceParent); ok {
		traceID = hex.EncodeToString(p.TraceID[:])
	}
	return appendKnown(nil, slog.String("label", h.Label), slog.String("owner", h.Owner), slog.String("process", h.Process),
		slog.Int64("token", h.Token), slog.Time("since", h.Since), slog.String("trace_id", traceID))
}

// describeError returns the attributes of err, without the key, or none if err is nil.
func (r *reporter) describeError(err error) []slog.Attr {
	if err == nil {
		return nil
	}
	attrs := []slog.Attr{slog.String("type", observe.ErrorType(err))}
	if !r.quoteErrors {
		return attrs
	}
	return append(attrs, slog.String("message", observe.Reason(err).Error()))
}
