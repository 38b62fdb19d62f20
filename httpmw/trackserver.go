package httpmw

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// trackServer is track for the writers of net/http itself, those of HTTP/1 and of HTTP/2, with one
// allocation instead of two dozen. It returns nil for all others.
func trackServer(ctx context.Context, w http.ResponseWriter) (http.ResponseWriter, *response) {
	server, ok := w.(serverWriter)
	if !ok {
		return nil, nil
	}
	reader, reads := w.(io.ReaderFrom)
	hijacker, hijacks := w.(http.Hijacker)
	pusher, pushes := w.(http.Pusher)
	switch {
	case reads && hijacks && !pushes:
		t := &http1Writer{trackedWriter{server, response{ctx: ctx}}, reader, hijacker}
		return t, &t.response
	case !reads && !hijacks && pushes:
		t := &http2Writer{trackedWriter{server, response{ctx: ctx}}, pusher}
		return t, &t.response
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
	response response
}

func (t *trackedWriter) Unwrap() http.ResponseWriter { return t.serverWriter }

func (t *trackedWriter) WriteHeader(code int) {
	if t.response.header(code) {
		t.serverWriter.WriteHeader(code)
	}
}

func (t *trackedWriter) Write(b []byte) (int, error) {
	if err := t.response.begin(); err != nil {
		return 0, err
	}
	return t.serverWriter.Write(b)
}

func (t *trackedWriter) WriteString(s string) (int, error) {
	if err := t.response.begin(); err != nil {
		return 0, err
	}
	return t.serverWriter.WriteString(s)
}

func (t *trackedWriter) Flush() { _ = t.FlushError() }

func (t *trackedWriter) FlushError() error {
	if err := t.response.begin(); err != nil {
		return err
	}
	return t.serverWriter.FlushError()
}

type http1Writer struct {
	trackedWriter
	readerFrom io.ReaderFrom
	hijacker   http.Hijacker
}

func (t *http1Writer) ReadFrom(src io.Reader) (int64, error) {
	return t.response.readFrom(t.serverWriter, t.readerFrom.ReadFrom, src)
}

func (t *http1Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return t.response.hijack(t.hijacker.Hijack)
}

type http2Writer struct {
	trackedWriter
	http.Pusher
}
