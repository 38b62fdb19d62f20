package httpmw

import (
	"bufio"
	"net"
	"net/http"
)

// An errorWriter is what an error handler writes to. It does not flush, or write no bytes, before the
// handler has said or written anything: net/http would take that for a 200.
type errorWriter struct {
	http.ResponseWriter
	begun bool
}

func (w *errorWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *errorWriter) WriteHeader(code int) {
	w.begun = w.begun || code >= http.StatusOK
	w.ResponseWriter.WriteHeader(code)
}

func (w *errorWriter) Write(b []byte) (int, error) {
	if len(b) == 0 && !w.begun {
		return 0, nil
	}
	w.begun = true
	return w.ResponseWriter.Write(b)
}

func (w *errorWriter) Flush() { _ = w.FlushError() }

func (w *errorWriter) FlushError() error {
	if !w.begun {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *errorWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.begun = w.begun || err == nil
	return conn, buf, err
}
