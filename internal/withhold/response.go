package withhold

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
)

// A Response is what is known of a handler's response. It is safe for concurrent use.
type Response struct {
	work
	begun atomic.Bool // by a status other than 1xx, a body, or because the connection was taken over
}

// A work is what the handler does, and may become void.
type work struct {
	ctx     context.Context
	void    func(context.Context) error
	cookies int // that were set before
}

// Begun reports whether the response has begun, so that no other can be sent instead.
func (r *Response) Begun() bool { return r.begun.Load() }

// described are the headers that belong to one response and to no other.
var described = []string{
	"Accept-Ranges", "Content-Digest", "Content-Disposition", "Content-Encoding", "Content-Language",
	"Content-Length", "Content-Location", "Content-Range", "Digest", "Etag", "Expires", "Last-Modified",
	"Location", "Refresh", "Repr-Digest", "Retry-After", "Trailer",
}

// Withdraw removes from h what the handler has said of the response that is not sent: headers that
// describe it, trailers, and cookies. Those that were set before Wrap are not the handler's.
func (r *Response) Withdraw(h http.Header) {
	maps.DeleteFunc(h, func(name string, _ []string) bool {
		return slices.Contains(described, name) || strings.HasPrefix(name, http.TrailerPrefix)
	})
	if set := h["Set-Cookie"]; len(set) > r.cookies {
		h["Set-Cookie"] = set[:r.cookies]
	}
}

// refused returns why the response may not begin with a success. One that has begun goes on.
func (r *Response) refused() error {
	if r.begun.Load() {
		return nil
	}
	return r.void(r.ctx)
}

// begin notes that the response begins with a success, unless that is refused.
func (r *Response) begin() error {
	err := r.refused()
	if err == nil {
		r.begun.Store(true)
	}
	return err
}

// status notes a status and reports whether it may be sent.
func (r *Response) status(code int) bool {
	switch {
	case code >= http.StatusBadRequest:
		r.begun.Store(true)
	case code >= http.StatusOK, code == http.StatusSwitchingProtocols:
		return r.begin() == nil
	}
	return true
}

// hijack takes over the connection with next, unless that is refused: a success could be sent on it.
func (r *Response) hijack(next func() (net.Conn, *bufio.ReadWriter, error)) (net.Conn, *bufio.ReadWriter, error) {
	if err := r.refused(); err != nil {
		return nil, nil, err
	}
	conn, buf, err := next()
	if err == nil {
		r.begun.Store(true)
	}
	return conn, buf, err
}

// readFrom copies src to w with next. The response begins with the first bytes of src, and not before
// they are there: a writer may send the header before it reads src, which may be empty, or the work may
// be void by then.
func (r *Response) readFrom(w io.Writer, next func(io.Reader) (int64, error), src io.Reader) (int64, error) {
	if r.begun.Load() {
		return next(src)
	}
	const first = 512 // what net/http looks at to find the type of the content
	n, err := io.CopyN(beginner{r, w}, src, first)
	if errors.Is(err, io.EOF) {
		return n, nil
	}
	if err != nil {
		return n, err
	}
	rest, err := next(src)
	return n + rest, err
}

// A beginner writes to w what may begin a response.
type beginner struct {
	*Response
	w io.Writer
}

func (b beginner) Write(p []byte) (int, error) {
	if err := b.begin(); err != nil {
		return 0, err
	}
	return b.w.Write(p)
}
