package echomw

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// WithLock is httpmw.WithLock for routes of echo: the handler runs under the lock whose key the function key returns.
// c.Request().Context() carries the hold, and ends with cause lockmw.ErrLost if the lock is lost. A request that does not get its
// lock is answered, and echo sees no error. A panic releases the lock and continues. WithLock has the defaults of httpmw.WithLock,
// and panics in the same cases.
func WithLock(l lockmw.Locker, key httpmw.KeyFunc, opts ...httpmw.Option) echo.MiddlewareFunc {
	return Wrap(httpmw.WithLock(l, key, opts...))
}

// WithRWLock is WithLock with a read lock for GET, HEAD and OPTIONS, and a write lock for all other methods.
func WithRWLock(l lockmw.RWLocker, key httpmw.KeyFunc, opts ...httpmw.Option) echo.MiddlewareFunc {
	return Wrap(httpmw.WithRWLock(l, key, opts...))
}

// WithLockAll is WithLock for several locks together: the request gets all of them or none.
func WithLockAll(l lockmw.Locker, keys httpmw.KeysFunc, opts ...httpmw.Option) echo.MiddlewareFunc {
	return Wrap(httpmw.WithLockAll(l, keys, opts...))
}

// Idempotent is httpmw.Idempotent for routes of echo: it runs the handler once for each Idempotency-Key, and gives every repetition
// the first answer. If the handler returns an error, the HTTPErrorHandler of echo answers it immediately, because the answer decides
// what a repetition gets. Middleware outside of Idempotent does not see the error.
func Idempotent(once *idempotency.Runner, scope func(*http.Request) (string, error), policy idempotency.Policy, opts ...httpmw.IdempotentOption) echo.MiddlewareFunc {
	mount := Wrap(httpmw.Idempotent(once, scope, policy, opts...))
	return func(next echo.HandlerFunc) echo.HandlerFunc { return mount(answerErrors(next)) }
}

// answerErrors lets echo answer an error of the handler immediately, unless the answer has begun: a lock inside may have been lost. The
// answer is not yet in echo's own response, so the handler gets another one, which notes that it has begun.
func answerErrors(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		c.SetResponse(echo.NewResponse(c.Response(), c.Logger()))
		if err := next(c); err != nil {
			c.Echo().HTTPErrorHandler(c, err)
		}
		return nil
	}
}
