package inspector

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/lockmw/go/internal/pause"
)

const (
	// streamFor is the lifetime of an event stream. The browser then opens another, which checks its authentication again. It also
	// bounds the wait of http.Server.Shutdown.
	streamFor = time.Minute
	// sayAnything is the maximum time between two writes to a stream. A write detects a closed connection.
	sayAnything = 15 * time.Second
	// writeWithin is how long a browser may stop reading a stream.
	writeWithin = 30 * time.Second
	// restFor is the pause of a stream after each change.
	restFor = 500 * time.Millisecond
)

// serveLive sends the variable part of a page as server-sent events: immediately, and after each change.
func (h *handler) serveLive(w http.ResponseWriter, r *http.Request) {
	s, err := h.subject(r.URL.Query().Get("page"), r)
	if err != nil {
		h.reject(w, r, err)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // nginx would buffer the events
	if r.Method == http.MethodHead {
		return
	}
	stream := &stream{w: w, out: http.NewResponseController(w)}
	if !stream.write("retry: 1000\n\n") {
		return
	}
	viewer := newViewer()
	defer watchAll(s, viewer)()
	viewer.tell() // other viewers may have loaded the data already
	ctx, cancel := context.WithTimeout(r.Context(), streamFor)
	defer cancel()
	silence := time.NewTicker(sayAnything)
	defer silence.Stop()
	aging := time.NewTicker(time.Second) // updates the age of old data while Redis does not answer
	defer aging.Stop()
	v := h.view(r)
	for {
		select {
		case <-viewer.changed:
		case <-aging.C:
			if p := s.show(v); p != nil && !p.failed() {
				continue
			}
		case <-silence.C:
			if !stream.write(": \n\n") {
				return
			}
			continue
		case <-ctx.Done():
			return
		}
		p := s.show(v)
		if p == nil { // too many searches run
			viewer.tell()
			if !pause.For(ctx, restFor) {
				return
			}
			continue
		}
		if p.Status != http.StatusOK && !p.failed() { // no data yet, and too early to report that
			continue
		}
		if !stream.send(p) || !pause.For(ctx, restFor) {
			return
		}
	}
}

// A stream is the answer of an event stream.
type stream struct {
	w    http.ResponseWriter
	out  *http.ResponseController
	sent []byte
}

// send sends the variable part of a page, unless it equals the last one. It reports false if the client has closed the connection.
func (s *stream) send(p *page) bool {
	var b bytes.Buffer
	if err := templates[p.Name].ExecuteTemplate(&b, "live", p); err != nil {
		return false
	}
	state := bytes.ReplaceAll(b.Bytes(), []byte("\r"), []byte("&#13;")) // a \r would end a line of the event
	if bytes.Equal(state, s.sent) {
		return true
	}
	s.sent = state
	var event bytes.Buffer
	event.WriteString("event: state\n")
	for line := range bytes.Lines(s.sent) {
		fmt.Fprintf(&event, "data: %s\n", bytes.TrimRight(line, "\r\n"))
	}
	event.WriteString("\n")
	return s.write(event.String())
}

func (s *stream) write(text string) bool {
	_ = s.out.SetWriteDeadline(time.Now().Add(writeWithin)) // replaces the server's own deadline; not every writer supports it
	if _, err := s.w.Write([]byte(text)); err != nil {
		return false
	}
	return s.out.Flush() == nil
}
