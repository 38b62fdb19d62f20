package withhold

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
)

// A Response is the state of a handler's response. It is safe for concurrent use.
type Response struct {
	work
	begun atomic.Bool // by a status other than 1xx, a body, or because the connection was taken over
}

// A Gate is notified of calls that may wait for the client.
type Gate interface {
	BeginWrite() // a write or a flush begins
	EndWrite()
	Close() // the connection was taken over
}

// A work is the handler's work, which may become void.
type work struct {
	ctx     context.Context
	void    func(context.Context) error
	gate    Gate
	cookies int // cookies that were set before
}

// Begun reports whether the response has begun, so that no other one can be sent instead.
func (r *Response) Begun() bool { return r.begun.Load() }

// Withdraw removes from h what the handler has set for the response that is not sent, with Clear, and its cookies. Cookies that
// were set before Wrap are not the handler's.
func (r *Response) Withdraw(h http.Header) {
	Clear(h)
	if set := h["Set-Cookie"]; len(set) > r.cookies {
		h["Set-Cookie"] = set[:r.cookies]
	}
}

// refused returns why the response may not begin with a success. A response that has begun may continue.
func (r *Response) refused() error {
	if r.begun.Load() {
		return nil
	}
	return r.void(r.ctx)
}

// begin records that the response begins with a success, unless that is refused.
func (r *Response) begin() error {
	err := r.refused()
	if err == nil {
		r.begun.Store(true)
	}
	return err
}

// enter calls begin and begins a write. If it returns nil, the caller ends the write.
func (r *Response) enter() error {
	err := r.begin()
	if err == nil {
		r.gate.BeginWrite()
	}
	return err
}

// write calls next as one write of b, unless that is refused.
func write[T []byte | string](r *Response, next func(T) (int, error), b T) (int, error) {
	if err := r.enter(); err != nil {
		return 0, err
	}
	defer r.gate.EndWrite()
	return next(b)
}

// flush calls next as one flush, unless that is refused.
func (r *Response) flush(next func() error) error {
	if err := r.enter(); err != nil {
		return err
	}
	defer r.gate.EndWrite()
	return next()
}

// status records a status and reports whether it may be sent.
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
		r.gate.Close()
	}
	return conn, buf, err
}

// readFrom copies src to w with next. The response does not begin before the first bytes of src are there: a writer may send
// the header before it reads src, but src may be empty, or the work may become void in between.
func (r *Response) readFrom(w io.Writer, next func(io.Reader) (int64, error), src io.Reader) (int64, error) {
	if r.begun.Load() {
		return r.copyFrom(next, src)
	}
	const first = 512 // net/http detects the content type from these bytes
	n, err := io.CopyN(beginner{r, w}, src, first)
	if errors.Is(err, io.EOF) {
		return n, nil
	}
	if err != nil {
		return n, err
	}
	rest, err := r.copyFrom(next, src)
	return n + rest, err
}

// copyFrom copies src with next as one write, without the times in which src is read, which may also be slow. A file is passed
// on unchanged, because the system may copy it.
func (r *Response) copyFrom(next func(io.Reader) (int64, error), src io.Reader) (int64, error) {
	r.gate.BeginWrite()
	defer r.gate.EndWrite()
	if isFile(src) {
		return next(src)
	}
	return next(source{src, r.gate})
}

func isFile(src io.Reader) bool {
	if l, ok := src.(*io.LimitedReader); ok {
		src = l.R
	}
	_, ok := src.(*os.File)
	return ok
}

// A source is the source of a copy. While it is read, no write waits for the client.
type source struct {
	io.Reader
	gate Gate
}

func (s source) Read(p []byte) (int, error) {
	s.gate.EndWrite()
	defer s.gate.BeginWrite()
	return s.Reader.Read(p)
}

// A beginner writes to w, which may begin a response.
type beginner struct {
	*Response
	w io.Writer
}

func (b beginner) Write(p []byte) (int, error) { return write(b.Response, b.w.Write, p) }

// described are the headers that belong to one response only: they describe its content, make a proxy send something else
// (X-Accel-Redirect, X-Sendfile), or set how long a cache may keep it. Caches prefer most of the latter to Cache-Control:
// no-store.
var described = []string{
	"Accept-Ranges", "Age", "Content-Digest", "Content-Disposition", "Content-Encoding", "Content-Language",
	"Content-Length", "Content-Location", "Content-Range", "Digest", "Edge-Control", "Etag", "Expires", "Last-Modified",
	"Location", "Refresh", "Repr-Digest", "Retry-After", "Surrogate-Control", "Trailer", "X-Accel-Expires",
	"X-Accel-Redirect", "X-Lighttpd-Send-File", "X-Sendfile",
}

// Clear prepares h for an answer that is sent instead of the intended response. It removes what describes that response,
// including its trailers, and what lets a cache store it, including the targeted fields of RFC 9213. It forbids caches to store
// the answer.
func Clear(h http.Header) {
	maps.DeleteFunc(h, func(name string, _ []string) bool {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
		name = http.CanonicalHeaderKey(name) // net/http sends names as they are in the map
		return slices.Contains(described, name) || strings.HasSuffix(name, "Cache-Control")
	})
	h.Set("Cache-Control", "no-store")
}
