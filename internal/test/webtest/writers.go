package webtest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-chi/chi/v5/middleware"
)

// Servers are the response writers that a middleware receives: those of net/http, and those of other middleware around it.
var Servers = map[string]struct {
	Around   func(http.Handler) http.Handler
	Protocol func(*httptest.Server)
}{
	"HTTP1":             {Directly, Protocols["HTTP1"]},
	"HTTP2":             {Directly, Protocols["HTTP2"]},
	"behind a stranger": {BehindStranger, Protocols["HTTP1"]},
	"behind a log":      {BehindLog, Protocols["HTTP1"]},
	"behind a recorder": {BehindRecorder, Protocols["HTTP1"]},
}

// Directly is no middleware.
func Directly(h http.Handler) http.Handler { return h }

// AccessLog is an access log with the writer of chi. It sends the status of every response to the channel.
func AccessLog(next http.Handler) (http.Handler, <-chan int) {
	statuses := make(chan int, 10_000)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logged := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() { statuses <- logged.Status() }()
		next.ServeHTTP(logged, r)
	}), statuses
}

// BehindLog wraps writers in those of AccessLog.
func BehindLog(h http.Handler) http.Handler {
	logged, _ := AccessLog(h)
	return logged
}

// A stranger is a writer of some other middleware, with a set of methods that no writer of net/http has.
type stranger struct {
	http.ResponseWriter
	io.StringWriter
	io.ReaderFrom
	http.Flusher
	http.Hijacker
	FlushErrorer
}

// A FlushErrorer is a writer that can report why it did not flush.
type FlushErrorer interface{ FlushError() error }

// BehindStranger wraps the writers of HTTP/1 in writers without Unwrap.
func BehindStranger(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(stranger{w, w.(io.StringWriter), w.(io.ReaderFrom), w.(http.Flusher), w.(http.Hijacker), w.(FlushErrorer)}, r)
	})
}

// A Recorder is the usual writer of an access log: it records the status, and leaves everything else to the wrapped writer.
type Recorder struct {
	http.ResponseWriter
	Status int
}

// Unwrap is for http.ResponseController.
func (r *Recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (r *Recorder) WriteHeader(code int) {
	r.Status = code
	r.ResponseWriter.WriteHeader(code)
}

// BehindRecorder wraps writers in a Recorder.
func BehindRecorder(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&Recorder{ResponseWriter: w}, r)
	})
}

// An HTTP1Writer has the methods of net/http's writer for HTTP/1, but no server.
type HTTP1Writer struct{ *httptest.ResponseRecorder }

// FlushError does nothing.
func (HTTP1Writer) FlushError() error { return nil }

// CloseNotify returns nil.
func (HTTP1Writer) CloseNotify() <-chan bool { return nil }

// SetReadDeadline does nothing.
func (HTTP1Writer) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (HTTP1Writer) SetWriteDeadline(time.Time) error { return nil }

// EnableFullDuplex does nothing.
func (HTTP1Writer) EnableFullDuplex() error { return nil }

// ReadFrom implements io.ReaderFrom.
func (w HTTP1Writer) ReadFrom(src io.Reader) (int64, error) { return w.Body.ReadFrom(src) }

// Hijack fails.
func (HTTP1Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, errors.ErrUnsupported
}
