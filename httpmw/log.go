package httpmw

import (
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/lockmw/go/internal/keyed"
	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/lockmw"
)

// logError records an error that the client does not see.
func (c *config) logError(r *http.Request, err error) {
	c.log(r, slog.LevelError, "httpmw: a request failed because of its lock", err)
}

// logUnavailable records a refusal that clients have not caused: of each kind one in a while, as all requests may
// be refused while Redis is away.
func (c *config) logUnavailable(r *http.Request, err error) {
	if missed, ok := c.unavailable.Allow(loglimit.KindOf(err)); ok {
		c.log(r, slog.LevelWarn, "httpmw: a request was refused because its lock is unavailable", err, "suppressed", missed)
	}
}

// logLoss records a loss that the response does not show: it is the handler's own.
func (c *config) logLoss(r *http.Request, err error) {
	c.log(r, slog.LevelWarn, "httpmw: the lock was lost while the request was handled", err)
}

// logKey records why a request has no key, for whoever has chosen the parts: for each number of a part one line in a while,
// as clients may send many such requests. An error's text is shown only if it is of a part of this package: others may quote
// the request.
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
	number, key := 0, "" // of which only the kind is shown
	if part, ok := errors.AsType[*keyed.PartError](err); ok {
		number, key = part.Number, keyed.Join(part.Kind, "?")
		more = []any{"part", number}
	}
	if missed, ok := c.invalid.Allow(strconv.Itoa(number)); ok {
		c.log(r, slog.LevelInfo, "httpmw: a request was refused because it has no valid key",
			&lockmw.Error{Key: key, Err: shown}, append(more, "suppressed", missed)...)
	}
}

// log writes a line without the key, which may be personal data; its kind is shown, and the label, such as the request's
// id.
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
	args := append([]any{"method", r.Method, "route", r.Pattern, "lock", name, "error", err}, more...)
	observe.LoggerOf(c.locker).Log(r.Context(), level, text, args...)
}
