package ginmw

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// WithLock is httpmw.WithLock for routes of gin: the handlers that follow run under the lock whose key the function key returns.
// c.Request.Context() carries the hold, and ends with cause lockmw.ErrLost if the lock is lost. A request that does not get its
// lock is answered and aborted. A panic releases the lock and continues. WithLock has the defaults of httpmw.WithLock, and panics
// in the same cases.
func WithLock(l lockmw.Locker, key httpmw.KeyFunc, opts ...httpmw.Option) gin.HandlerFunc {
	return Wrap(httpmw.WithLock(l, key, opts...))
}

// WithRWLock is WithLock with a read lock for GET, HEAD and OPTIONS, and a write lock for all other methods.
func WithRWLock(l lockmw.RWLocker, key httpmw.KeyFunc, opts ...httpmw.Option) gin.HandlerFunc {
	return Wrap(httpmw.WithRWLock(l, key, opts...))
}

// WithLockAll is WithLock for several locks together: the request gets all of them or none.
func WithLockAll(l lockmw.Locker, keys httpmw.KeysFunc, opts ...httpmw.Option) gin.HandlerFunc {
	return Wrap(httpmw.WithLockAll(l, keys, opts...))
}

// Idempotent is httpmw.Idempotent for routes of gin: it runs the handlers that follow once for each Idempotency-Key, and gives
// every repetition the first answer.
//
// A handler that calls c.Error and does not answer has failed with status 500. Outer middleware may still answer with another status and
// a body, but a repetition does not get that answer: its outcome follows from the 500. To keep such an answer, mount the middleware
// that answers errors after Idempotent.
func Idempotent(once *idempotency.Runner, scope func(*http.Request) (string, error), policy idempotency.Policy, opts ...httpmw.IdempotentOption) gin.HandlerFunc {
	return wrap(httpmw.Idempotent(once, scope, policy, opts...), explicit)
}

// explicit calls the handlers that follow, and makes the status explicit, because silence would count as status 200. A status that was
// set outside is the default, such as the 404 that gin sets for an unknown route. If the handlers add errors and do not answer, the
// status becomes 500. gin sends a status with the first write, so outer middleware can still replace it.
func explicit(c *gin.Context, w *responseWriter) {
	if outside := w.ResponseWriter.Status(); outside != http.StatusOK {
		w.outside = outside
	}
	before := len(c.Errors)
	c.Next()
	if len(c.Errors) > before && w.status == 0 && w.outside < http.StatusBadRequest && !w.Written() {
		w.status = http.StatusInternalServerError
	}
}
