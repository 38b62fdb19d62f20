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
func track(w http.ResponseWriter) (http.ResponseWriter, *atomic.Bool) {
	begun := new(atomic.Bool) // a handler's own goroutines may write
	return httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(code int) {
				if code >= http.StatusOK || code == http.StatusSwitchingProtocols {
					begun.Store(true)
				}
				next(code)
			}
		},
		Write: func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(b []byte) (int, error) {
				begun.Store(true)
				return next(b)
			}
		},
		WriteString: func(next httpsnoop.WriteStringFunc) httpsnoop.WriteStringFunc {
			return func(s string) (int, error) {
				begun.Store(true)
				return next(s)
			}
		},
		ReadFrom: func(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (int64, error) {
				begun.Store(true)
				return next(src)
			}
		},
		Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() {
				begun.Store(true)
				next()
			}
		},
		FlushError: func(next httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc {
			return func() error {
				begun.Store(true)
				return next()
			}
		},
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, buf, err := next()
				if err == nil {
					begun.Store(true)
				}
				return conn, buf, err
			}
		},
	}), begun
}
