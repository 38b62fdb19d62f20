package httpmw

import (
	"context"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/lockmw/go/internal/slowclient"
)

// smallBody is the longest body that is read before a request waits for its lock, and in which JSON looks for its value.
const smallBody = 64 << 10

// A body is that of a request that comes to its lock. The part that is read ahead of the handler is replayed to the handler.
type body struct {
	io.ReadCloser
	w     http.ResponseWriter // of the request; nil: a read cannot be ended
	began time.Time
	rest  []byte // was read ahead, and has not been replayed
	err   error  // after rest; nil: what follows has not been read
}

// newBody returns the body of a request that began at that time and is answered by w, to read ahead; nil if there is none.
func newBody(of io.ReadCloser, w http.ResponseWriter, began time.Time) *body {
	if b, ok := of.(*body); ok {
		return b
	}
	if of == nil || of == http.NoBody {
		return nil
	}
	return &body{ReadCloser: of, w: w, began: began}
}

// keyOf calls the key function, which may read the body ahead, and returns the body for the handler.
func (g *guard[K]) keyOf(w http.ResponseWriter, r *http.Request, began time.Time) (key K, forHandler io.ReadCloser, err error) {
	arrived := r.Body
	b := newBody(arrived, w, began)
	if b == nil {
		key, err = g.key(r)
		return key, r.Body, err
	}
	r.Body = b
	defer func() {
		if r.Body == b { // net/http looks at the type of its own, after a panic too
			r.Body = arrived
		}
	}()
	key, err = g.key(r)
	if r.Body == b && len(b.rest) == 0 && b.err == nil {
		return key, arrived, err
	}
	return key, r.Body, err
}

// readAhead returns the body of a request that may wait, having read it if it is small. For two reasons: net/http notices
// that a client of HTTP/1 has gone only when it has read the body, and a slow client should not keep the lock.
func (c *config) readAhead(w http.ResponseWriter, r *http.Request, of io.ReadCloser, began time.Time) io.ReadCloser {
	if !c.waits || r.ContentLength <= 0 || r.ContentLength > smallBody {
		return of
	}
	b := newBody(of, w, began)
	if b == nil {
		return of
	}
	b.ahead(r.Context(), r.ContentLength, int(r.ContentLength)) // other middleware may have replaced it by a longer one
	return b
}

// ahead reads until the body ends, or more than limit bytes are there. It takes no longer than longestWait and ctx: if that
// ends first, the body is of no use, nor is the lock. The length is that in the request's header, -1 if it is unknown.
func (b *body) ahead(ctx context.Context, length int64, limit int) {
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	guard := slowclient.New(ctx, b.w, b.began, nil)
	defer guard.Close()
	from := guard.Body(b.ReadCloser)
	for more := max(512, int(min(length, smallBody))+1); b.err == nil && len(b.rest) <= limit; more = len(b.rest) {
		if len(b.rest) == cap(b.rest) {
			b.rest = slices.Grow(b.rest, more)
		}
		var n int
		n, b.err = from.Read(b.rest[len(b.rest):min(cap(b.rest), limit+1)])
		b.rest = b.rest[:len(b.rest)+n]
	}
}

func (b *body) Read(p []byte) (int, error) {
	switch {
	case len(p) == 0:
		return 0, nil
	case len(b.rest) > 0:
		n := copy(p, b.rest)
		b.rest = b.rest[n:]
		return n, nil
	case b.err != nil:
		return 0, b.err
	}
	return b.ReadCloser.Read(p)
}

// isRead reports whether nothing of a body has to come from the client any more.
func isRead(r io.ReadCloser) bool {
	b, ok := r.(*body)
	return ok && b.err != nil
}

func (b *body) Close() error {
	b.rest, b.err = nil, http.ErrBodyReadAfterClose
	return b.ReadCloser.Close()
}
