package withhold

import (
	"bufio"
	"net"
	"net/http"
)

// An Explicit is a ResponseWriter that begins a response only with a status or a body, or by taking over the connection.
// net/http would also begin one, with status 200, at a flush or an empty write: Explicit ignores these until the response has
// begun. It is for one goroutine.
type Explicit struct {
	http.ResponseWriter
	begun bool
}

// NewExplicit returns an Explicit that writes to w.
func NewExplicit(w http.ResponseWriter) *Explicit { return &Explicit{ResponseWriter: w} }

// Begun reports whether the response has begun.
func (w *Explicit) Begun() bool { return w.begun }

// Unwrap is for http.ResponseController.
func (w *Explicit) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *Explicit) WriteHeader(code int) {
	w.begun = w.begun || code >= http.StatusOK
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *Explicit) Write(b []byte) (int, error) {
	if len(b) == 0 && !w.begun {
		return 0, nil
	}
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// Flush implements http.Flusher.
func (w *Explicit) Flush() { _ = w.FlushError() }

// FlushError is for http.ResponseController.
func (w *Explicit) FlushError() error {
	if !w.begun {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker.
func (w *Explicit) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.begun = w.begun || err == nil
	return conn, buf, err
}
