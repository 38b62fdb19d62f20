package httpmw

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/logged"
	"github.com/lockmw/go/internal/withhold"
	"github.com/lockmw/go/lockmw"
)

// Idempotent returns middleware that runs the handler once for each Idempotency-Key, and gives every repetition the first answer,
// with the header Idempotent-Replayed: true. A repetition that arrives while the first request is being handled waits for its
// answer: see idempotency.WithWait. It is for POST and PATCH; other methods run as without it.
//
//	r.With(httpmw.Idempotent(once, httpmw.Claim(userID), idempotency.Refuse)).Post("/orders", createOrder)
//
// scope says whose key it is, so that two users who choose the same key have different ones. It is a Part such as Claim, or a
// KeyFunc; their errors have the same statuses as for WithLock. If it returns lockmw.ErrNoLock, the request runs as without
// Idempotent. policy decides what a repetition gets if an earlier run left no outcome.
//
// The first answer decides:
//
//   - 200 to 399 is kept: every repetition gets it. WithKept changes that.
//   - 400 to 499 is forgotten, because the handler did nothing: a repetition runs. The same is true if it calls
//     idempotency.NotDone, and if another middleware of this package refuses the request inside.
//   - 500 and above, a panic, and the end of the handler's context without an explicit answer below 400 are unknown outcomes.
//
// The answer is sent after it is recorded, so it is buffered until the handler returns. A body above the Runner's limit is sent
// in pieces; then only status and headers are kept, and repetitions get 409 idempotency-done. WithStreaming does that at the
// first flush. The handler's context carries the run and its lock. It ends when the lock is lost; once an answer is
// recorded, it ends with the request.
//
// A repetition must be the same request: the method, the path, the query and the body are compared. The body is read first and may
// have 1 MiB. If middleware outside or the scope has parsed a form, that form is compared. A body that was read in another way gets
// status 500.
//
// Mount it inside of recovery, CORS, compression, authentication, authorisation and timeouts, because a replay runs nothing
// inside, and outside of WithLock and of transactions. Never mount http.TimeoutHandler or recovery inside: the first returns
// before the work has ended, and the second hides a panic.
//
// Idempotent panics if once, scope or an option is invalid, if policy is not set, and if it is mounted around an
// http.TimeoutHandler.
func Idempotent(once *idempotency.Runner, scope func(*http.Request) (string, error), policy idempotency.Policy, opts ...IdempotentOption) func(http.Handler) http.Handler {
	m := newIdempotent(once, scope, policy, opts)
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("httpmw: Idempotent: the handler is nil")
		}
		if fmt.Sprintf("%T", next) == "*http.timeoutHandler" {
			panic("httpmw: Idempotent: " + errTimeoutInside.Error())
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost && r.Method != http.MethodPatch {
				next.ServeHTTP(w, r)
				return
			}
			id, err := idempotencyKey(r.Header)
			switch {
			case err == errNoIdempotencyKey && !m.required: //nolint:errorlint // it is not wrapped
				next.ServeHTTP(w, r)
			case err != nil:
				m.refuse(w, r, err, false)
			default:
				m.serve(w, r, id, next)
			}
		})
	}
}

type idempotent struct {
	*config
	once     *idempotency.Runner
	scope    KeyFunc
	policy   idempotency.Policy
	kept     func(status int) bool
	headers  []string // kept besides those that always are
	required bool
	streams  bool
	identify func(r *http.Request, body []byte) ([]byte, error) // nil: by query and body
}

func newIdempotent(once *idempotency.Runner, scope KeyFunc, policy idempotency.Policy, opts []IdempotentOption) *idempotent {
	if err := once.CheckPolicy(policy); err != nil {
		panic(fmt.Errorf("httpmw: Idempotent: %w", err))
	}
	if scope == nil {
		panic("httpmw: Idempotent: the scope is nil, so all clients would share their keys")
	}
	m := &idempotent{
		config: &config{locker: once, name: "idem"}, once: once, scope: scope, policy: policy,
		kept: isSuccess,
	}
	for i, o := range opts {
		var err error
		switch o := o.(type) {
		case idempotentOption:
			err = o.Apply(m)
		case sharedOption:
			err = o.Apply(m.config)
		default:
			panic(fmt.Sprintf("httpmw: Idempotent: option %d is %T, not an IdempotentOption made by httpmw", i+1, o))
		}
		if err != nil {
			panic(fmt.Errorf("httpmw: Idempotent: %w", err))
		}
	}
	return m
}

func isSuccess(status int) bool { return status >= http.StatusOK && status < http.StatusBadRequest }

// serve handles a request that has a key.
func (m *idempotent) serve(w http.ResponseWriter, r *http.Request, id string, next http.Handler) {
	if isUnderTimeout(w, r) {
		m.refuse(w, r, errTimeoutInside, false)
		return
	}
	began := time.Now()
	scope, body, err := keyOf(m.scope.checked, w, r, began)
	if errors.Is(err, lockmw.ErrNoLock) {
		r.Body = body
		next.ServeHTTP(w, r)
		return
	}
	if err != nil {
		m.refuse(w, r, &lockmw.Error{Op: opKey, Err: fmt.Errorf("no scope for this request: %w", err)}, false)
		return
	}
	text, body, err := wholeBody(w, r, body, began)
	if err != nil {
		m.refuse(w, r, err, false)
		return
	}
	key := idempotency.Key{Scope: scope, ID: id}
	fingerprint, err := m.fingerprint(key, r, text)
	if err != nil {
		m.refuse(w, r, &lockmw.Error{Op: opKey, Err: fmt.Errorf("no fingerprint for this request: %w", err)}, false)
		return
	}
	call := logged.NewCall(ofRequest(r.Context()))
	run, err := m.once.Begin(call, key, fingerprint, m.policy)
	if err != nil {
		if errors.Is(err, idempotency.ErrNested) && !errors.Is(err, idempotency.ErrUnknownOutcome) {
			r.Body = body
			next.ServeHTTP(w, r)
			return
		}
		m.refuse(w, r, err, call.Logged())
		return
	}
	if answer, done := run.Replay(); done {
		m.replay(w, r, run, &answer)
		return
	}
	m.run(w, r, body, run, next)
}

// run calls next with the request, records its answer and then sends it.
func (m *idempotent) run(w http.ResponseWriter, r *http.Request, body io.ReadCloser, run *idempotency.Run, next http.Handler) {
	defer func() { _ = run.Leave() }() // if a function of WithKept or the logger has panicked; otherwise the run has ended
	work := newWork(r.Context(), run.Context())
	defer work.cancel(context.Canceled)
	mine := r.WithContext(work.ctx)
	mine.Body = body
	answer := newRecorder(m, w, r, run, work)
	returned := false
	defer func() {
		giveBack(r, mine)
		if !returned {
			answer.abandon()
			return // a panic in next continues
		}
		answer.finish()
	}()
	next.ServeHTTP(answer.writer(), mine)
	returned = true
}

// A work is the context of a run's handler.
type work struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	request context.Context
	unbind  func() bool
}

// newWork returns the context for the handler: it ends with the run's context, which ends with the request's.
func newWork(request, run context.Context) *work {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(run))
	w := &work{ctx: ctx, cancel: cancel, request: request}
	deadline, limited := request.Deadline()
	if limited {
		ctx, stop := context.WithDeadline(ctx, deadline)
		w.ctx, w.cancel = ctx, func(cause error) { cancel(cause); stop() }
	}
	w.unbind = context.AfterFunc(run, func() {
		if !limited || !errors.Is(run.Err(), context.DeadlineExceeded) { // the deadline ends ctx itself, with the right error
			cancel(context.Cause(run))
		}
	})
	return w
}

// outlive lets the context outlive the run, whose answer is recorded while the handler still sends it.
func (w *work) outlive() {
	if w.unbind() {
		stop := context.AfterFunc(w.request, func() { w.cancel(context.Cause(w.request)) })
		context.AfterFunc(w.ctx, func() { stop() })
	}
}

var errTimeoutInside = errors.New("http.TimeoutHandler is mounted inside Idempotent, and would return before the work has ended: mount it outside")

// isUnderTimeout reports whether an http.TimeoutHandler is between a request's run and w.
func isUnderTimeout(w http.ResponseWriter, r *http.Request) bool {
	if _, runs := idempotency.FromContext(r.Context()); !runs {
		return false
	}
	return withhold.Contains(w, func(w http.ResponseWriter) bool { return fmt.Sprintf("%T", w) == "*http.timeoutWriter" })
}
