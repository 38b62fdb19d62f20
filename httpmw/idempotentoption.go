package httpmw

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/lockmw/go/internal/middleware"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// An IdempotentOption configures Idempotent. The options of the lock and of the records belong to the Runner: see idempotency.New.
type IdempotentOption interface{ option.Idempotent }

type idempotentOption struct {
	option.ForIdempotent
	middleware.Setting[idempotent]
}

// WithRequired refuses requests without an Idempotency-Key with status 400. By default they run like requests without Idempotent,
// so that clients can be changed one after the other.
func WithRequired() IdempotentOption {
	return idempotentOption{Setting: func(m *idempotent) error { m.required = true; return nil }}
}

// WithKept sets which statuses are kept: f returns true for a status that every repetition gets again. Of the others, those from
// 400 to 499 mean that the run did nothing, so a repetition runs; all others are unknown outcomes. The default keeps 200 to 399.
//
// f does not matter if the handler has called idempotency.NotDone. Once the handler's context has ended, nothing is kept but
// 200 to 399.
func WithKept(f func(status int) bool) IdempotentOption {
	return idempotentOption{Setting: func(m *idempotent) error {
		m.kept = f
		return middleware.CheckGiven("WithKept", f)
	}}
}

// WithHeaders keeps more headers of an answer for repetitions. Always kept are Content-* except Content-Length, which net/http
// sets again, Location, Link, ETag, Last-Modified and Cache-Control. A header that earlier middleware has set is not kept, because
// that middleware sets it for the repetition as well.
//
// Set-Cookie is invalid: whoever repeats a request, perhaps after a log-out, must not get the session of the first answer.
// So are the headers of the connection.
func WithHeaders(names ...string) IdempotentOption {
	names = slices.Clone(names)
	return idempotentOption{Setting: func(m *idempotent) error {
		if len(names) == 0 {
			return fmt.Errorf("%w: WithHeaders without a name", lockmw.ErrInvalidOption)
		}
		for i, name := range names {
			names[i] = http.CanonicalHeaderKey(name)
			if !isToken(name) || slices.Contains(neverKept, names[i]) {
				return fmt.Errorf("%w: WithHeaders(%q): not the name of a header that can be kept", lockmw.ErrInvalidOption, name)
			}
		}
		m.headers = append(m.headers, names...)
		return nil
	}}
}

// WithStreaming sends what the handler has written when it flushes. The answer is recorded first, without its body, so repetitions
// get 409 idempotency-done. By default a flush waits for the end of the handler, as everything else that it writes.
func WithStreaming() IdempotentOption {
	return idempotentOption{Setting: func(m *idempotent) error { m.streams = true; return nil }}
}

// WithFingerprint sets what a repetition of a request has in common with it, apart from method and path. By default that is the
// query and the body, of which a repetition must have the same bytes. Use it if clients order JSON anew or sign each query, or if a
// header such as X-Tenant matters. f must not change body. Its errors have the statuses of a KeyFunc's.
func WithFingerprint(f func(r *http.Request, body []byte) ([]byte, error)) IdempotentOption {
	return idempotentOption{Setting: func(m *idempotent) error {
		m.identify = f
		return middleware.CheckGiven("WithFingerprint", f)
	}}
}
