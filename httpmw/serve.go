package httpmw

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/logged"
	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/slowclient"
	"github.com/lockmw/go/internal/waitlimit"
	"github.com/lockmw/go/internal/withhold"
	"github.com/lockmw/go/lockmw"
)

const (
	defaultMaxHold = 5 * time.Minute
	// longestWait ends waits without a limit: the client may have disconnected long ago.
	longestWait = 5 * time.Minute
)

var whyTooLong = fmt.Sprintf("no wait is longer than %v", longestWait)

// statusClientGone is the status that access logs call "client closed request".
const statusClientGone = 499

// A guard handles requests under the lock of a key, or the locks of several keys.
type guard[K any] struct {
	*config
	key  func(*http.Request) (K, error)
	lock func(context.Context, *http.Request, K, []lockmw.Option) (context.Context, waitlimit.Unlocker, error)
}

func guarding[K any](g *guard[K]) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("httpmw: the handler to lock is nil")
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if g.methods != nil && !slices.Contains(g.methods, r.Method) {
				next.ServeHTTP(w, r)
				return
			}
			g.serve(w, r, next)
		})
	}
}

func (g *guard[K]) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if isUnderTimeout(w, r) {
		g.refuse(w, r, errTimeoutInside, false)
		return
	}
	began := time.Now()
	key, body, err := keyOf(g.key, w, r, began)
	if errors.Is(err, lockmw.ErrNoLock) {
		r.Body = body
		next.ServeHTTP(w, r)
		return
	}
	if err != nil {
		g.refuse(w, r, &lockmw.Error{Op: opKey, Err: fmt.Errorf("no key for this request: %w", err)}, false)
		return
	}
	body = g.readAhead(w, r, body, began)
	waiting, limit := waitlimit.Start(ofRequest(r.Context()), g.longestWait)
	defer limit.Release()
	call := logged.NewCall(waiting)
	ctx, hold, err := g.lock(call, r, key, g.optionsFor(r))
	err = limit.Stop(hold, err, whyTooLong)
	if err == nil {
		err = tooLate(hold, r.Context(), ctx)
	}
	if err != nil {
		g.refuse(w, r, err, call.Logged())
		return
	}
	client := slowclient.New(ctx, w, began, isUnlock)
	locked := r.WithContext(ctx)
	if locked.Body = body; !isRead(body) {
		locked.Body = client.Body(body)
	}
	g.run(locked, w, r, client, next, hold)
}

// optionsFor returns the options for the lock of a request. The label is the request ID, if there is one.
func (c *config) optionsFor(r *http.Request) []lockmw.Option {
	id := core.Label(middleware.GetReqID(r.Context()))
	if id == "" {
		return c.lock
	}
	return append(c.lock, lockmw.WithDefaults(lockmw.WithLabel(id))) // c.lock is clipped
}

// tooLate releases a hold that was granted too late, because the context of the request or of the hold has already ended. It
// returns an error that says why. The request's context comes first: it ends an instant before the hold's.
func tooLate(hold waitlimit.Unlocker, contexts ...context.Context) error {
	for _, ctx := range contexts {
		if ctx.Err() != nil {
			err := fmt.Errorf("%w: granted too late: %w (%w)", lockmw.ErrBusy, ctx.Err(), context.Cause(ctx))
			return &lockmw.Error{Op: "lock", Err: errors.Join(err, waitlimit.Discard(hold))}
		}
	}
	return nil
}

// run calls next with the request locked, whose context carries the hold, and then releases the hold. When the context ends, the
// handler stops waiting for its client.
func (g *guard[K]) run(locked *http.Request, w http.ResponseWriter, r *http.Request, client *slowclient.Guard, next http.Handler, hold waitlimit.Unlocker) {
	ctx := locked.Context()
	wrapped, response := withhold.Wrap(ctx, w, lossOf, client)
	returned := false
	defer func() {
		client.Close()
		giveBack(r, locked)
		lost := lossOf(ctx) // it may be the loss of an outer lock
		err := hold.Unlock()
		if core.IsLoss(err) {
			lost = err
		}
		switch {
		case lost != nil && returned && !response.Begun():
			response.Withdraw(w.Header())
			g.fail(w, r, fmt.Errorf("%w: %w", lockmw.ErrLost, lost))
		case core.IsLoss(err): // the response does not show it
			g.log(r, slog.LevelWarn, "httpmw: the lock was lost while the request was handled", err)
		}
		// A panic in next continues from here.
	}()
	next.ServeHTTP(wrapped, locked)
	returned = true
}

// isUnlock reports whether a handler's context has ended because the handler itself released the lock. The handler may then take
// as long as it needs.
func isUnlock(cause error) bool { return errors.Is(cause, lockmw.ErrNotHeld) }

// giveBack copies fields that the handler has set in locked to r. net/http needs them to remove the files of the form, and logs
// to name the route.
func giveBack(r, locked *http.Request) {
	r.Pattern = locked.Pattern
	if r.MultipartForm == nil {
		r.MultipartForm = locked.MultipartForm
	}
}

// refuse answers a request that has not got its lock, so that its handler does not run: a run of an Idempotent outside has done
// nothing. logged says that an observer has already logged the failure.
func (c *config) refuse(w http.ResponseWriter, r *http.Request, err error, logged bool) {
	ctx := r.Context()
	idempotency.NotDone(ctx)
	cause := context.Cause(ctx)
	switch {
	case core.IsLoss(cause): // of an outer lock
		c.fail(w, r, fmt.Errorf("%w: %w", lockmw.ErrLost, cause))
	case !errors.Is(ctx.Err(), context.Canceled):
		if logged {
			c.answer(w, r, err)
		} else {
			c.fail(w, r, err)
		}
	case errors.Is(cause, context.Canceled):
		answerNobody(w)
	default:
		c.answer(w, r, fmt.Errorf("%w: the request was cancelled: %w", lockmw.ErrUnavailable, cause))
	}
}

// answerNobody ends a request whose client has disconnected. Without a status, access logs would show a 200. So would the response,
// if the context was cancelled for another reason.
func answerNobody(w http.ResponseWriter) {
	withhold.Clear(w.Header())
	w.WriteHeader(statusClientGone)
}

// fail answers a request that failed because of its lock. It logs failures that clients have not caused, and which part of the
// key a request lacks. It does not log a request whose deadline passed before it asked for its lock.
func (c *config) fail(w http.ResponseWriter, r *http.Request, err error) {
	switch p := problemOf(err); {
	case p.Status == http.StatusInternalServerError:
		c.log(r, slog.LevelError, "httpmw: a request failed because of its lock", err)
	case p.Type == problemUnavailable.Type && !errors.Is(err, lockmw.ErrNotRequested):
		c.logRefusal(r, loglimit.KindOf(err), "its lock is unavailable", err)
	case errors.Is(err, idempotency.ErrUnknownOutcome): // the line has what an operator needs for Runner.Resolve
		c.logRefusal(r, runOf(err), "the outcome of an earlier run is unknown", err)
	case p == problemKey, p == problemTooLarge:
		c.logKey(r, err)
	}
	c.answer(w, r, err)
}

func (c *config) answer(w http.ResponseWriter, r *http.Request, err error) {
	if c.onError != nil {
		withhold.Clear(w.Header())
		custom := withhold.NewExplicit(w)
		if c.onError(custom, r, err); custom.Begun() {
			return
		}
	}
	WriteError(w, r, err)
}

// ofRequest returns ctx without the holds in the contexts of the server and of the connection, because all requests would share
// these. net/http adds the server to the context after BaseContext, and the address after ConnContext.
func ofRequest(ctx context.Context) context.Context {
	if _, carries := lockmw.FromContext(ctx); !carries || ctx.Value(http.LocalAddrContextKey) == nil {
		return ctx
	}
	server := ctx.Value(http.ServerContextKey)
	return core.WithScope(ctx, func(taken context.Context) bool {
		return taken.Value(http.LocalAddrContextKey) != nil && taken.Value(http.ServerContextKey) == server
	})
}

// lossOf returns why the lock of ctx was lost; nil if it was not.
func lossOf(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if cause := context.Cause(ctx); core.IsLoss(cause) {
		return cause
	}
	// The context may have ended before the loss, with a cause of its own.
	if hold, found := lockmw.FromContext(ctx); found {
		if _, err := lockmw.Held(ctx, hold.Key()); core.IsLoss(err) {
			return err
		}
	}
	return nil
}
