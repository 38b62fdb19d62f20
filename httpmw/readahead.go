package httpmw

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/go/internal/slowclient"
	"github.com/lockmw/go/lockmw"
)

// smallBody is the longest body that is read before a request waits for its lock, and the longest that JSON accepts.
const smallBody = 64 << 10

// A body reads the body of a request ahead of the handler, and replays to the handler what it has read. As with the body of
// net/http, Close may be called during a Read.
type body struct {
	io.ReadCloser
	w     http.ResponseWriter // of the request; nil: a read cannot be interrupted
	began time.Time

	mu   sync.Mutex // of a Read and a Close; nothing is read ahead meanwhile
	rest []byte     // read ahead and not yet replayed
	err  error      // follows rest; nil: the body has not been read to its end
}

// newBody wraps the body of a request, so that it can be read ahead; nil if the request has no body.
func newBody(of io.ReadCloser, w http.ResponseWriter, began time.Time) *body {
	if b, ok := of.(*body); ok {
		return b
	}
	if of == nil || of == http.NoBody {
		return nil
	}
	return &body{ReadCloser: of, w: w, began: began}
}

// keyOf calls the key function of, which may read the body ahead, and returns the body for the handler.
func keyOf[K any](of func(*http.Request) (K, error), w http.ResponseWriter, r *http.Request, began time.Time) (key K, forHandler io.ReadCloser, err error) {
	arrived := r.Body
	b := newBody(arrived, w, began)
	if b == nil {
		key, err = of(r)
		return key, r.Body, err
	}
	r.Body = b
	defer func() {
		if r.Body == b { // net/http checks the type of its own body, also after a panic
			r.Body = arrived
		}
	}()
	key, err = of(r)
	if r.Body == b && len(b.rest) == 0 && b.err == nil {
		return key, arrived, err
	}
	return key, r.Body, err
}

// readAhead returns the body of a request that may wait, and reads it first if it is small. There are two reasons: net/http
// notices a disconnect of an HTTP/1 client only after the body has been read, and a slow client should not keep the lock.
func (c *config) readAhead(w http.ResponseWriter, r *http.Request, of io.ReadCloser, began time.Time) io.ReadCloser {
	if !c.waits || r.ContentLength <= 0 || r.ContentLength > smallBody {
		return of
	}
	b := newBody(of, w, began)
	if b == nil {
		return of
	}
	b.ahead(r.Context(), r.ContentLength, int(r.ContentLength)) // other middleware may have replaced the body by a longer one
	return b
}

// ahead reads until the body ends or more than limit bytes have arrived. It stops after longestWait and when ctx ends, because
// neither the body nor the lock is of use then. length is the request's Content-Length, -1 if it is unknown.
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

// whole reads a body of at most limit bytes to its end and returns it. length is the request's Content-Length.
func (b *body) whole(ctx context.Context, length int64, limit int) ([]byte, error) {
	if length > int64(limit) {
		return nil, &http.MaxBytesError{Limit: int64(limit)}
	}
	b.ahead(ctx, length, limit)
	switch {
	case len(b.rest) > limit:
		return nil, &http.MaxBytesError{Limit: int64(limit)}
	case b.err == io.EOF: //nolint:errorlint // Readers return it unwrapped
		return b.rest, nil
	case ctx.Err() != nil, errors.Is(b.err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%w: %w", lockmw.ErrNotRequested, b.err)
	}
	return nil, fmt.Errorf("the body cannot be read: %w", b.err)
}

func (b *body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if n, err := b.replay(p); n > 0 || err != nil {
		return n, err
	}
	return b.ReadCloser.Read(p)
}

// replay reads what was read ahead, and then returns the error that follows it.
func (b *body) replay(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rest) == 0 {
		return 0, b.err
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// isRead reports whether the client has sent all of a body.
func isRead(r io.ReadCloser) bool {
	b, ok := r.(*body)
	return ok && b.err != nil
}

func (b *body) Close() error {
	b.mu.Lock()
	b.rest, b.err = nil, http.ErrBodyReadAfterClose
	b.mu.Unlock()
	return b.ReadCloser.Close()
}
