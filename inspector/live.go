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
	// streamFor is how long a stream of changes lasts. The browser then asks for another, and so shows again that it may; and
	// http.Server.Shutdown waits no longer than that.
	streamFor = time.Minute
	// sayAnything is after how long a stream is written to at the latest, to see whether anybody reads it.
	sayAnything = 15 * time.Second
	// writeWithin is how long a browser may take nothing of a stream.
	writeWithin = 30 * time.Second
	// restFor is how long a stream says nothing after each change.
	restFor = 500 * time.Millisecond
)

// serveLive sends the part of a page that changes, as server-sent events: at once, and whenever it is another one.
func (h *handler) serveLive(w http.ResponseWriter, r *http.Request) {
	s, err := h.subject(r.URL.Query().Get("page"), r)
	if err != nil {
		status, _ := statusOf(err)
		http.Error(w, err.Error(), status)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // nginx would hold it back
	stream := &stream{w: w, out: http.NewResponseController(w)}
	if !stream.write("retry: 1000\n\n") {
		return
	}
	viewer := newViewer()
	defer watchAll(s, viewer)()
	viewer.tell() // others may look already
	ctx, cancel := context.WithTimeout(r.Context(), streamFor)
	defer cancel()
	silence := time.NewTicker(sayAnything)
	defer silence.Stop()
	aging := time.NewTicker(time.Second) // of what is shown while Redis does not answer
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
		if p == nil { // many search
			viewer.tell()
			if !pause.For(ctx, restFor) {
				return
			}
			continue
		}
		if p.Status != http.StatusOK && !p.failed() { // nothing is known yet, and it is too early to say so
			continue
		}
		if !stream.send(p) || !pause.For(ctx, restFor) {
			return
		}
	}
}

// A stream is an answer that goes on.
type stream struct {
	w    http.ResponseWriter
	out  *http.ResponseController
	sent []byte
}

// send sends what changes of a page, unless it is what was sent last; false if nobody reads it.
func (s *stream) send(p *page) bool {
	var b bytes.Buffer
	if err := templates[p.Name].ExecuteTemplate(&b, "live", p); err != nil {
		return false
	}
	state := bytes.ReplaceAll(b.Bytes(), []byte("\r"), []byte("&#13;")) // a line of an event ends with it
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
	_ = s.out.SetWriteDeadline(time.Now().Add(writeWithin)) // a server's own would end the stream; not every writer can
	if _, err := s.w.Write([]byte(text)); err != nil {
		return false
	}
	return s.out.Flush() == nil
}
