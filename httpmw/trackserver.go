package httpmw

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"
)

// trackServer is track for the writers of net/http itself, those of HTTP/1 and of HTTP/2, with one
// allocation instead of two dozen. It returns nil for all others.
func trackServer(w http.ResponseWriter) (http.ResponseWriter, *begun) {
	server, ok := w.(serverWriter)
	if !ok {
		return nil, nil
	}
	reader, reads := w.(io.ReaderFrom)
	hijacker, hijacks := w.(http.Hijacker)
	pusher, pushes := w.(http.Pusher)
	switch {
	case reads && hijacks && !pushes:
		t := &http1Writer{trackedWriter{serverWriter: server}, reader, hijacker}
		return t, &t.begun
	case !reads && !hijacks && pushes:
		t := &http2Writer{trackedWriter{serverWriter: server}, pusher}
		return t, &t.begun
	}
	return nil, nil
}

// A serverWriter has the methods that the writers of both protocols have.
type serverWriter interface {
	http.ResponseWriter
	io.StringWriter
	http.Flusher
	FlushError() error
	CloseNotify() <-chan bool
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	EnableFullDuplex() error
}

type trackedWriter struct {
	serverWriter
	begun begun
}

func (t *trackedWriter) Unwrap() http.ResponseWriter { return t.serverWriter }

func (t *trackedWriter) WriteHeader(code int) {
	t.begun.status(code)
	t.serverWriter.WriteHeader(code)
}

func (t *trackedWriter) Write(p []byte) (int, error) {
	t.begun.Store(true)
	return t.serverWriter.Write(p)
}

func (t *trackedWriter) WriteString(s string) (int, error) {
	t.begun.Store(true)
	return t.serverWriter.WriteString(s)
}

func (t *trackedWriter) Flush() {
	t.begun.Store(true)
	t.serverWriter.Flush()
}

func (t *trackedWriter) FlushError() error {
	t.begun.Store(true)
	return t.serverWriter.FlushError()
}

type http1Writer struct {
	trackedWriter
	readerFrom io.ReaderFrom
	hijacker   http.Hijacker
}

func (t *http1Writer) ReadFrom(src io.Reader) (int64, error) {
	n, err := t.readerFrom.ReadFrom(src)
	t.begun.copied(n)
	return n, err
}

func (t *http1Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := t.hijacker.Hijack()
	if err == nil {
		t.begun.Store(true)
	}
	return conn, buf, err
}

type http2Writer struct {
	trackedWriter
	http.Pusher
}
