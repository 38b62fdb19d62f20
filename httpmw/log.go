package httpmw

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/keyed"
	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/lockmw"
)

// logRefusal records why a request was refused. Lines of each kind are rate-limited, as every request may be refused while Redis is
// unreachable, and clients repeat requests.
func (c *config) logRefusal(r *http.Request, kind, why string, err error) {
	if missed, ok := c.refusals.Allow(kind); ok {
		c.log(r, slog.LevelWarn, "httpmw: a request was refused because "+why, err, "suppressed", missed)
	}
}

// runOf returns the kind of a line about an unknown outcome: each run has lines of its own, because the line names it.
func runOf(err error) string {
	if e, ok := errors.AsType[*idempotency.Error](err); ok && e.Unfinished != nil {
		return "run " + e.Unfinished.Run
	}
	return "run"
}

// logKey records why a request has no key, for the developer who chose the parts. Lines for each part are rate-limited, as
// clients may send many such requests. The text of an error is logged only if it comes from a part of this package: other texts
// may quote the request.
func (c *config) logKey(r *http.Request, err error) {
	e, ok := errors.AsType[*lockmw.Error](err)
	if !ok || e.Op != opKey {
		return // a key that is too long
	}
	shown := lockmw.ErrInvalidKey
	if own, ok := errors.AsType[*partError](err); ok {
		shown = own
	} else if errors.Is(err, keyed.ErrEmpty) {
		shown = keyed.ErrEmpty
	}
	var more []any
	number, key := 0, "" // only the kind of the key is logged
	if part, ok := errors.AsType[*keyed.PartError](err); ok {
		number, key = part.Number, keyed.Join(part.Kind, "?")
		more = []any{"part", number}
	}
	if missed, ok := c.invalid.Allow(strconv.Itoa(number)); ok {
		c.log(r, slog.LevelInfo, "httpmw: a request was refused because it has no valid key",
			&lockmw.Error{Key: key, Err: shown}, append(more, "suppressed", missed)...)
	}
}

// logEnd records that the end of a run could not be recorded, although the client gets the handler's answer.
func (c *config) logEnd(r *http.Request, err error) {
	if err != nil {
		c.log(r, slog.LevelWarn, "httpmw: the end of a run could not be recorded, so its outcome is unknown", err)
	}
}

// logUnknown records that the outcome of a run is unknown, with what an operator needs for idempotency.Runner.Resolve. status is 0 if
// the handler has not answered.
func (c *config) logUnknown(r *http.Request, run *idempotency.Run, status int) {
	c.log(r, slog.LevelWarn, "httpmw: the outcome of a run is unknown", context.Cause(run.Context()), "run", run.ID(), "attempt", run.Attempt(), "status", status)
}

// log writes a line with the kind and the label, such as the request ID, but without the key, which may be personal data.
func (c *config) log(r *http.Request, level slog.Level, text string, err error, more ...any) {
	name := c.name
	if e, ok := errors.AsType[*lockmw.Error](err); ok {
		if e.Key != "" && name == "" {
			name = keyed.Kind(e.Key)
		}
		if e.Label != "" {
			more = append([]any{"label", e.Label}, more...)
		}
		err = e.Err
	}
	if e, ok := errors.AsType[*idempotency.Error](err); ok && e.Unfinished != nil {
		more = append([]any{"run", e.Unfinished.Run, "attempt", e.Unfinished.Attempts}, more...)
	}
	args := append([]any{"method", r.Method, "route", r.Pattern, "lock", name, "error", err}, more...)
	observe.LoggerOf(c.locker).Log(r.Context(), level, text, args...)
}
