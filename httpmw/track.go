package httpmw

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/felixge/httpsnoop"
)

// track returns a ResponseWriter with the very methods of w, and whether the response has begun: with
// a header other than 1xx, with a body, or because the connection was taken over.
func track(w http.ResponseWriter) (http.ResponseWriter, *begun) {
	if tracked, b := trackServer(w); b != nil {
		return tracked, b
	}
	return trackAny(w)
}

// begun is whether a response has begun. A handler's own goroutines may write.
type begun struct{ atomic.Bool }

// status notes a header.
func (b *begun) status(code int) {
	if code >= http.StatusOK || code == http.StatusSwitchingProtocols {
		b.Store(true)
	}
}

// copied notes the length of what was read from a source. One that is empty, or fails because the
// lock is lost, leaves the response as it was.
func (b *begun) copied(n int64) {
	if n > 0 {
		b.Store(true)
	}
}

// trackAny is track for the writers of other middleware, whatever methods they have.
func trackAny(w http.ResponseWriter) (http.ResponseWriter, *begun) {
	b := new(begun)
	return httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(code int) {
				b.status(code)
				next(code)
			}
		},
		Write: func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(p []byte) (int, error) {
				b.Store(true)
				return next(p)
			}
		},
		WriteString: func(next httpsnoop.WriteStringFunc) httpsnoop.WriteStringFunc {
			return func(s string) (int, error) {
				b.Store(true)
				return next(s)
			}
		},
		ReadFrom: func(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (int64, error) {
				n, err := next(src)
				b.copied(n)
				return n, err
			}
		},
		Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() {
				b.Store(true)
				next()
			}
		},
		FlushError: func(next httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc {
			return func() error {
				b.Store(true)
				return next()
			}
		},
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, buf, err := next()
				if err == nil {
					b.Store(true)
				}
				return conn, buf, err
			}
		},
	}), b
}
