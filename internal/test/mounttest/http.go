package mounttest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// A Framework adapts a framework for HTTP.
type Framework struct {
	User  httpmw.Part // the parameter userID of a route
	Serve func(*Shop) http.Handler
	// AnswersLate says that the framework answers the errors of a handler after the middleware, as echo does.
	AnswersLate bool
	// HidesForms says that the framework itself copies the request, as chi does, so that net/http does not see the files of a form.
	HidesForms bool
}

// A Shop is a service for HTTP. The framework's own middleware is around the lock: from the outside in, one that calls Note in the
// end, recovery, and one that identifies the caller.
type Shop struct {
	Once  *Once                             // nil: requests may be repeated
	Mount []func(http.Handler) http.Handler // the locks around all handlers, the outermost first; inside of Once

	// Order handles POST /users/{userID}/orders. The answer to nil is 201 with a body and a Location, to ErrNoStock 422, to another
	// error whatever the framework does. A handler that follows sets the header X-Next.
	Order func(context.Context) error
	Raw   http.HandlerFunc // handles POST /users/{userID}/raw, as in net/http

	mu       sync.Mutex
	statuses []int
	ended    int // requests whose context had ended outside of the lock
}

// Note records how a request has ended outside of the lock.
func (s *Shop) Note(r *http.Request, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses = append(s.statuses, status)
	if r.Context().Err() != nil {
		s.ended++
	}
}

// Once are the arguments of Idempotent.
type Once struct {
	Runner *idempotency.Runner
	Scope  httpmw.Part
	Policy idempotency.Policy
}

type callerKey struct{}

// Identify returns the request with the identity of its caller in its context, as authentication does.
func Identify(r *http.Request) *http.Request {
	if id := r.Header.Get("X-User"); id != "" {
		return r.WithContext(context.WithValue(r.Context(), callerKey{}, id))
	}
	return r
}

// Caller returns the identity of a request's caller.
func Caller(ctx context.Context) (string, bool) {
	id, ok := ctx.Value(callerKey{}).(string)
	return id, ok
}

// byUser is a lock of the user.
func (f *Framework) byUser(l lockmw.Locker, opts ...httpmw.Option) []func(http.Handler) http.Handler {
	return []func(http.Handler) http.Handler{httpmw.WithLock(l, httpmw.By("user", f.User), opts...)}
}

// order sends an order of a user.
func order(h http.Handler, user string) *httptest.ResponseRecorder {
	return orderAs(h, httptest.NewRequest(http.MethodPost, "/users/"+user+"/orders", nil), user)
}

func orderAs(h http.Handler, r *http.Request, user string) *httptest.ResponseRecorder {
	r.Header.Set("X-User", user)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

// mount mounts a Service.
func (f *Framework) mount(t *testing.T, s Service) func(context.Context, string) Answer {
	opts := make([]httpmw.Option, len(s.Options))
	for i, o := range s.Options {
		opts[i] = o
	}
	lock := httpmw.WithLock(s.Locks, func(r *http.Request) (string, error) {
		user, err := f.User(r)
		if err != nil {
			return "", err
		}
		return s.Key(r.Context(), user)
	}, opts...)
	shop := &Shop{Order: s.Handle}
	for range s.Mounts {
		shop.Mount = append(shop.Mount, lock)
	}
	h := f.Serve(shop)
	return func(ctx context.Context, user string) Answer {
		rec := orderAs(h, httptest.NewRequestWithContext(ctx, http.MethodPost, "/users/"+user+"/orders", nil), user)
		after, _ := strconv.Atoi(rec.Header().Get("Retry-After"))
		return Answer{Outcome: outcomeOf(t, rec), Retry: time.Duration(after) * time.Second, Text: fmt.Sprint(rec.Header(), rec.Body)}
	}
}

// outcomeOf returns the status of a response, and its problem type or "replayed".
func outcomeOf(t *testing.T, rec *httptest.ResponseRecorder) string {
	t.Helper()
	outcome := strconv.Itoa(rec.Code)
	if of := problemOf(t, rec); of != "" {
		outcome += " " + of
	}
	if rec.Header().Get("Idempotent-Replayed") != "" {
		outcome += " replayed"
	}
	return outcome
}

// problemOf returns the problem type of a response; "" if the response is not exactly one problem.
func problemOf(t *testing.T, rec *httptest.ResponseRecorder) string {
	t.Helper()
	var p struct{ Type string }
	if rec.Header().Get("Content-Type") != "application/problem+json" {
		return ""
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
		t.Errorf("the body is not one problem: %q: %v", rec.Body, err)
	}
	return p.Type
}

// Run plays all cases of HTTP.
func (f *Framework) Run(t *testing.T) {
	t.Parallel()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, f.mount, c.HTTP) })
	}
	for name, play := range map[string]func(*Framework, *testing.T){
		"one request at a time":                            oneAtATime,
		"a refused request goes no further":                noNext,
		"an error handler answers":                         errorHandler,
		"a lost lock and the framework's own answer":       lostAnswer,
		"outside of the lock the request is as before":     outside,
		"a key is made of the request's context":           keyOfContext,
		"the files of a form are known outside":            form,
		"a stream continues after a loss":                  stream,
		"no response begins after a loss":                  noResponse,
		"a slow client does not keep the lock":             slowClient,
		"a connection is taken over under the lock":        hijack,
		"an order is handled once for its Idempotency-Key": once,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); play(f, t) })
	}
}
