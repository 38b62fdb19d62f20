package httpmw

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

	"github.com/lockmw/go/lockmw"
)

// A response is what is known of a handler's response. A handler's own goroutines may write.
type response struct {
	ctx   context.Context // of the hold
	begun atomic.Bool     // by a header other than 1xx, a body, or because the connection was taken over
}

// refused returns why no success may be sent: the lock is lost, and the response has not begun.
func (p *response) refused() error {
	if p.begun.Load() {
		return nil
	}
	return lossOf(p.ctx)
}

// begin notes that the response begins with a success, unless that is refused.
func (p *response) begin() error {
	err := p.refused()
	if err == nil {
		p.begun.Store(true)
	}
	return err
}

// header notes a status and reports whether it may be sent.
func (p *response) header(code int) bool {
	switch {
	case code >= http.StatusBadRequest:
		p.begun.Store(true)
	case code >= http.StatusOK, code == http.StatusSwitchingProtocols:
		return p.begin() == nil
	}
	return true
}

// hijack has next take over the connection, on which a success could be sent.
func (p *response) hijack(next func() (net.Conn, *bufio.ReadWriter, error)) (net.Conn, *bufio.ReadWriter, error) {
	if err := p.refused(); err != nil {
		return nil, nil, err
	}
	conn, buf, err := next()
	if err == nil {
		p.begun.Store(true)
	}
	return conn, buf, err
}

// readFrom has next copy src to w. A response begins with the source's first bytes: a writer may send
// the header before it asks for them, and there may be none, or the lock lost by then.
func (p *response) readFrom(w io.Writer, next func(io.Reader) (int64, error), src io.Reader) (int64, error) {
	if p.begun.Load() {
		return next(src)
	}
	const first = 512 // what net/http looks at to tell the type of the content
	n, err := io.CopyN(beginner{p, w}, src, first)
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
	*response
	w io.Writer
}

func (b beginner) Write(p []byte) (int, error) {
	if err := b.begin(); err != nil {
		return 0, err
	}
	return b.w.Write(p)
}

// lossOf returns why the lock of ctx is lost, if it is.
func lossOf(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if cause := context.Cause(ctx); isLoss(cause) {
		return cause
	}
	// The context may have ended before, with a cause of its own.
	if hold, found := lockmw.FromContext(ctx); found {
		if _, err := lockmw.Held(ctx, hold.Key()); isLoss(err) {
			return err
		}
	}
	return nil
}

func isLoss(err error) bool {
	return errors.Is(err, lockmw.ErrLost) || errors.Is(err, lockmw.ErrClosed)
}

// described are the headers that belong to one response and to no other.
var described = []string{
	"Accept-Ranges", "Content-Digest", "Content-Disposition", "Content-Encoding", "Content-Language",
	"Content-Length", "Content-Location", "Content-Range", "Digest", "Etag", "Expires", "Last-Modified",
	"Location", "Refresh", "Repr-Digest", "Retry-After", "Trailer",
}

// withdraw removes the headers of a response that is not sent. The first cookies are those of other
// middleware.
func withdraw(h http.Header, cookies int) {
	maps.DeleteFunc(h, func(name string, _ []string) bool {
		return slices.Contains(described, name) || strings.HasPrefix(name, http.TrailerPrefix)
	})
	if set := h["Set-Cookie"]; len(set) > cookies {
		h["Set-Cookie"] = set[:cookies]
	}
}
