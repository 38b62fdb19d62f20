package httpmw

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"

	"github.com/felixge/httpsnoop"
)

// track returns a ResponseWriter with the very methods of w, which sends no success once the lock of
// ctx is lost, and what is known of the response.
func track(ctx context.Context, w http.ResponseWriter) (http.ResponseWriter, *response) {
	if tracked, p := trackServer(ctx, w); p != nil {
		return tracked, p
	}
	p := &response{ctx: ctx}
	return trackHidden(w, trackAny(w, p), p), p
}

// trackAny is track for the writers of other middleware, whatever methods they have.
func trackAny(w http.ResponseWriter, p *response) http.ResponseWriter {
	return httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(code int) {
				if p.header(code) {
					next(code)
				}
			}
		},
		Write: func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(b []byte) (int, error) {
				if err := p.begin(); err != nil {
					return 0, err
				}
				return next(b)
			}
		},
		WriteString: func(next httpsnoop.WriteStringFunc) httpsnoop.WriteStringFunc {
			return func(s string) (int, error) {
				if err := p.begin(); err != nil {
					return 0, err
				}
				return next(s)
			}
		},
		ReadFrom: func(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (int64, error) { return p.readFrom(w, next, src) }
		},
		Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() {
				if p.begin() == nil {
					next()
				}
			}
		},
		FlushError: func(next httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc {
			return func() error {
				if err := p.begin(); err != nil {
					return err
				}
				return next()
			}
		},
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) { return p.hijack(next) }
		},
	})
}
