package httpmw

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/lockmw/go/internal/slowclient"
)

// smallBody is the longest body that is read before a request waits for its lock.
const smallBody = 64 << 10

// readAhead returns the body of a request that may wait, having read it if it is small. For two reasons: net/http notices
// that a client of HTTP/1 has gone only when it has read the body, and a slow client should not keep the lock. The body
// that is returned has what was read, and ends with the error of that. If the context of r ends first, the body is of no
// use: nor is the lock.
func (c *config) readAhead(w http.ResponseWriter, r *http.Request, began time.Time) io.ReadCloser {
	if !c.waits || r.Body == nil || r.ContentLength <= 0 || r.ContentLength > smallBody {
		return r.Body
	}
	ctx, cancel := context.WithTimeout(r.Context(), longestWait)
	defer cancel()
	guard := slowclient.New(ctx, w, began, nil)
	defer guard.Close()
	read, err := readSome(guard.Body(r.Body), int(r.ContentLength))
	if err == nil { // other middleware has replaced the body by a longer one
		return &prefixed{io.MultiReader(bytes.NewReader(read), r.Body), r.Body}
	}
	return &replayed{ReadCloser: r.Body, rest: read, err: err}
}

// readSome reads a body of about n bytes, and returns the error that has ended it; nil if it is longer.
func readSome(body io.Reader, n int) (read []byte, err error) {
	read = make([]byte, 0, n+1)
	for err == nil && len(read) < cap(read) {
		n, err = body.Read(read[len(read):cap(read)])
		read = read[:len(read)+n]
	}
	return read, err
}

// A replayed body was read already.
type replayed struct {
	io.ReadCloser
	rest []byte
	err  error // after rest
}

func (b *replayed) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	if n == 0 {
		return 0, b.err
	}
	return n, nil
}

// isRead reports whether nothing of a body has to come from the client any more.
func isRead(body io.ReadCloser) bool {
	_, read := body.(*replayed)
	return read
}

func (b *replayed) Close() error {
	b.rest, b.err = nil, http.ErrBodyReadAfterClose
	return b.ReadCloser.Close()
}

// A prefixed body was read in part.
type prefixed struct {
	io.Reader
	io.Closer
}
