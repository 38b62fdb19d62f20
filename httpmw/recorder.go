package httpmw

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/withhold"
)

// A recorder is the ResponseWriter of a run. It buffers the answer until the record says that the work is done. It has no Unwrap,
// because no byte may pass it by.
type recorder struct {
	m    *idempotent
	w    http.ResponseWriter
	r    *http.Request // as it arrived
	run  *idempotency.Run
	work *work

	before http.Header // set by earlier middleware
	header http.Header // the handler's

	mu       sync.Mutex
	phase    phase
	recorded bool        // the record says that the work is done
	status   int         // 0: not set yet
	explicit bool        // the handler has set the status, or written a body
	sent     http.Header // as it was when the status was set
	length   int64       // the Content-Length that the handler has set; -1: none
	written  int64
	body     []byte
	why      error // why nothing can be written in phase closed
}

type phase int8

const (
	buffering phase = iota
	streaming       // what is written is sent
	closed          // what is written is lost
)

func newRecorder(m *idempotent, w http.ResponseWriter, r *http.Request, run *idempotency.Run, work *work) *recorder {
	return &recorder{m: m, w: w, r: r, run: run, work: work, before: w.Header().Clone(), header: w.Header().Clone()}
}

// writer returns the ResponseWriter for the handler. It has a Hijack method only if the connection can be taken over.
func (a *recorder) writer() http.ResponseWriter {
	if withhold.CanHijack(a.w) {
		return hijackable{a}
	}
	return a
}

// Header implements http.ResponseWriter.
func (a *recorder) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter. A status of 500 or above replaces a success that has not been sent: it may be of
// middleware that has seen a panic.
func (a *recorder) WriteHeader(code int) {
	if code < 100 || code > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", code)) // as net/http does
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.phase == streaming:
		a.w.WriteHeader(code) // which complains that there was one before
	case a.phase == closed:
	case code < 200 && code != http.StatusSwitchingProtocols:
		change(a.w.Header(), a.before, a.header)
		a.w.WriteHeader(code)
		change(a.w.Header(), a.header, a.before)
	case a.status == 0, code >= 500 && a.status < 500:
		a.setStatus(code)
		a.explicit = true
	}
}

func (a *recorder) setStatus(code int) {
	a.status, a.sent, a.body, a.written, a.length = code, a.header.Clone(), nil, 0, -1
	if n, err := strconv.ParseInt(a.header.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		a.length = n
	}
}

// Write implements http.ResponseWriter.
func (a *recorder) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch a.phase {
	case streaming:
		return a.w.Write(p)
	case closed:
		return 0, a.why
	}
	if a.status == 0 {
		a.setStatus(http.StatusOK)
	}
	if len(p) == 0 {
		return 0, nil
	}
	a.explicit = true
	if a.status < 200 || a.status == http.StatusNoContent || a.status == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	if a.written += int64(len(p)); a.length >= 0 && a.written > a.length {
		return 0, http.ErrContentLength
	}
	a.body = append(a.body, p...)
	if len(a.body) > a.m.once.MaxBody() {
		if err := a.stream(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Flush implements http.Flusher.
func (a *recorder) Flush() { _ = a.FlushError() }

// FlushError is for http.ResponseController.
func (a *recorder) FlushError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.phase == closed {
		return a.why
	}
	if a.phase == buffering {
		if a.status == 0 {
			a.setStatus(http.StatusOK)
		}
		if !a.m.streams || a.outcome() != idempotency.Keep {
			return nil // it waits for the end
		}
		if err := a.stream(); err != nil {
			return err
		}
	}
	return http.NewResponseController(a.w).Flush()
}

// SetReadDeadline is for http.ResponseController.
func (a *recorder) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(a.w).SetReadDeadline(t)
}

// SetWriteDeadline is for http.ResponseController.
func (a *recorder) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(a.w).SetWriteDeadline(t)
}

// EnableFullDuplex is for http.ResponseController.
func (a *recorder) EnableFullDuplex() error {
	return http.NewResponseController(a.w).EnableFullDuplex()
}

type hijackable struct{ *recorder }

// Hijack implements http.Hijacker.
func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a := h.recorder
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.phase == closed {
		return nil, nil, a.why
	}
	if err := a.work.ctx.Err(); err != nil && a.phase == buffering {
		return nil, nil, fmt.Errorf("httpmw: the run has ended: %w", err)
	}
	if a.status != 0 && a.outcome() != idempotency.Keep {
		return nil, nil, errBegun
	}
	if err := a.record(true); err != nil {
		return nil, nil, err
	}
	conn, buf, err := http.NewResponseController(a.w).Hijack()
	if err == nil {
		a.phase, a.why = closed, http.ErrHijacked
	}
	return conn, buf, err
}

var errBegun = errors.New("httpmw: the handler has answered with an error")

// stream sends what was written so far, and everything after it as it is written. An answer that is kept is recorded first.
func (a *recorder) stream() error {
	if a.outcome() == idempotency.Keep {
		if err := a.record(true); err != nil {
			return err
		}
	}
	a.send()
	a.phase = streaming
	return nil
}

// record records the answer, unless that was done before. If that fails, it answers the client that the work may be done.
func (a *recorder) record(noBody bool) error {
	if a.recorded {
		return nil
	}
	a.work.outlive()
	if err := a.run.Keep(a.answer(noBody)); err != nil {
		a.work.cancel(err)
		a.phase, a.why = closed, err
		a.m.fail(a.w, a.r, err)
		return err
	}
	a.recorded = true
	return nil
}

// send sends the status, the headers and the body as far as it was written.
func (a *recorder) send() {
	change(a.w.Header(), a.before, a.sent)
	a.w.WriteHeader(a.status)
	if len(a.body) > 0 {
		_, _ = a.w.Write(a.body) //nolint:gosec // the answer of the handler; it fails only if the client has disconnected
	}
	a.body = nil
}

var errHandlerReturned = errors.New("httpmw: the handler has returned")

// finish ends the run after the handler has returned, and sends the answer that is not sent yet.
func (a *recorder) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.phase == closed {
		return
	}
	if a.status == 0 {
		a.setStatus(http.StatusOK)
	}
	if !a.recorded && !a.end() {
		return
	}
	if a.phase == buffering {
		a.send()
	}
	a.sendTrailers()
	a.phase, a.why = closed, errHandlerReturned
}

// end ends a run that has no record yet, and reports whether the handler's answer is to be sent.
func (a *recorder) end() (answer bool) {
	switch a.outcome() {
	case idempotency.Keep:
		return a.record(false) == nil
	case idempotency.Forget:
		a.forget()
		return true
	}
	ended := a.run.Context().Err() != nil
	a.leave()
	if !ended || a.explicit || a.phase == streaming {
		return true
	}
	// net/http would send status 200 for a handler that has stopped working.
	a.phase, a.why = closed, errHandlerReturned
	a.m.failSilent(a.w, a.r, a.run)
	return false
}

// forget ends a run that has done nothing. If it was marked, a run outside has done nothing either, whatever the status is.
func (a *recorder) forget() {
	if a.run.IsNotDone() {
		idempotency.NotDone(a.r.Context())
	}
	a.m.logEnd(a.r, a.run.Forget())
}

// leave ends a run whose outcome is unknown.
func (a *recorder) leave() {
	a.m.logUnknown(a.r, a.run, a.status)
	a.m.logEnd(a.r, a.run.Leave())
}

// abandon ends the run of a handler that has panicked. Nothing is sent that is not sent yet.
func (a *recorder) abandon() {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.recorded || a.phase == closed:
	case a.run.IsNotDone():
		a.forget()
	default:
		a.leave()
	}
	a.phase, a.why = closed, errHandlerReturned
}

// outcome returns how a run ends that has given this answer.
func (a *recorder) outcome() idempotency.Outcome {
	switch {
	case a.run.IsNotDone():
		return idempotency.Forget
	case a.run.Context().Err() != nil && !(a.explicit && isSuccess(a.status)):
		return idempotency.Leave
	case a.m.kept(a.status):
		return idempotency.Keep
	case a.status >= 400 && a.status < 500:
		return idempotency.Forget
	}
	return idempotency.Leave
}
