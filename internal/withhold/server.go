package withhold

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"
)

// wrapServer is Wrap for the writers of net/http itself, for HTTP/1 and HTTP/2. It returns nil for all others.
func wrapServer(w http.ResponseWriter, work work) (http.ResponseWriter, *Response) {
	server, ok := w.(serverWriter)
	if !ok {
		return nil, nil
	}
	reader, reads := w.(io.ReaderFrom)
	hijacker, hijacks := w.(http.Hijacker)
	pusher, pushes := w.(http.Pusher)
	switch {
	case reads && hijacks && !pushes:
		t := &http1Writer{wrapped{server, Response{work: work}}, reader, hijacker}
		return t, &t.response
	case !reads && !hijacks && pushes:
		t := &http2Writer{wrapped{server, Response{work: work}}, pusher}
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

// A wrapped is the common part of the wrappers for both protocols.
type wrapped struct {
	serverWriter
	response Response
}

func (t *wrapped) Unwrap() http.ResponseWriter { return t.serverWriter }

func (t *wrapped) WriteHeader(code int) {
	if t.response.status(code) {
		t.serverWriter.WriteHeader(code)
	}
}

func (t *wrapped) Write(b []byte) (int, error) {
	return write(&t.response, t.serverWriter.Write, b)
}

func (t *wrapped) WriteString(s string) (int, error) {
	return write(&t.response, t.serverWriter.WriteString, s)
}

func (t *wrapped) Flush() { _ = t.FlushError() }

func (t *wrapped) FlushError() error { return t.response.flush(t.serverWriter.FlushError) }

type http1Writer struct {
	wrapped
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
	wrapped
	http.Pusher
}
