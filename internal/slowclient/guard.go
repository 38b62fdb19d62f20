// Package slowclient ends the reads and writes of a handler that wait for its client when a context ends. Otherwise a client
// that neither sends nor receives could keep the handler forever.
//
//	guard := slowclient.New(ctx, w, time.Now(), nil)
//	defer guard.Close()
//	r.Body = guard.Body(r.Body)
//	guard.BeginWrite() // around each call of w that may wait
//
// It sets no deadline of the connection before the context ends, so it changes no deadline of the server or of other
// middleware. The package knows nothing of locks.
package slowclient

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// LastWrite is how long a write may take after the context has ended.
const LastWrite = time.Second

// A Guard watches the reads and writes of one request. It is safe for concurrent use.
type Guard struct {
	ctx     context.Context
	ignores func(cause error) bool
	w       http.ResponseWriter
	// The server's own deadlines, or slightly later ones; zero: none.
	latestRead, latestWrite time.Time

	mu       sync.Mutex
	unwatch  func() bool // stops the watch of ctx; nil: no call has waited yet
	ended    error       // the cause of the end; nil: ctx has not ended, or its end is ignored
	closed   bool
	reading  int
	writing  int
	broken   bool // a read was ended
	unread   bool // the body was not read to its end
	limiting bool // write deadlines are set
}

// New returns a Guard for a request that began at that time, or slightly earlier, and is answered by w. The end of ctx has no
// effect if ignores returns true for its cause; ignores may be nil.
func New(ctx context.Context, w http.ResponseWriter, began time.Time, ignores func(cause error) bool) *Guard {
	g := &Guard{ctx: ctx, ignores: ignores, w: w}
	if s, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok {
		g.latestRead, g.latestWrite = after(began, s.ReadTimeout), after(began, s.WriteTimeout)
	}
	return g
}

// after returns when a timeout of the server ends; zero if there is none.
func after(began time.Time, timeout time.Duration) (t time.Time) {
	if timeout > 0 {
		t = began.Add(timeout)
	}
	return t
}

// Close ends the watch: call it when the handler has returned, or has taken over the connection.
func (g *Guard) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.unwatch != nil {
		g.unwatch()
	}
}

// BeginWrite must be called before each write or flush, and EndWrite after it.
func (g *Guard) BeginWrite() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.look()
	g.writing++
	if g.ended != nil {
		g.limit()
	}
}

// EndWrite ends a write.
func (g *Guard) EndWrite() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.writing--; g.writing == 0 {
		g.restore()
	}
}

// look begins the watch of ctx, and notices its end. g.mu is held.
func (g *Guard) look() {
	switch {
	case g.closed || g.ended != nil:
	case g.ctx.Err() != nil:
		g.end()
	case g.unwatch == nil:
		g.unwatch = context.AfterFunc(g.ctx, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.end()
		})
	}
}

// end ends the reads and writes in progress. g.mu is held.
func (g *Guard) end() {
	if g.closed || g.ended != nil {
		return
	}
	cause := context.Cause(g.ctx)
	if g.ignores != nil && g.ignores(cause) {
		g.closed = true
		return
	}
	g.ended = cause
	if g.reading > 0 {
		g.broken = true // net/http closes the connection after the response
		_ = g.control().SetReadDeadline(time.Unix(1, 0))
	}
	if g.writing > 0 {
		g.limit()
	}
}

// limit gives writes LastWrite from now on, unless the server has given them less. For HTTP/1 the first write also reads the
// rest of the body, and needs time for the response after that. g.mu is held.
func (g *Guard) limit() {
	now := time.Now()
	g.limiting = true
	_ = g.control().SetWriteDeadline(earlier(now.Add(LastWrite), g.latestWrite))
	if g.unread && !g.broken {
		_ = g.control().SetReadDeadline(earlier(now.Add(LastWrite/2), g.latestRead))
	}
}

// restore removes the deadlines of limit, so that the response can still be completed. g.mu is held.
func (g *Guard) restore() {
	if !g.limiting || g.closed {
		return
	}
	g.limiting = false
	_ = g.control().SetWriteDeadline(g.latestWrite)
	if g.unread && !g.broken {
		_ = g.control().SetReadDeadline(g.latestRead)
	}
}

// control is created only when it is needed, which is rare.
func (g *Guard) control() *http.ResponseController { return http.NewResponseController(g.w) }

// earlier returns the earlier of two times; limit may be zero.
func earlier(t, limit time.Time) time.Time {
	if !limit.IsZero() && limit.Before(t) {
		return limit
	}
	return t
}
