// Package wire carries the connections of redis clients, so that a program can disturb them and see their commands:
//
//	w := wire.New(dial)
//	rdb := redis.NewClient(&redis.Options{Addr: addr, Dialer: w.Dial})
//	w.Cut()
package wire

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// A Wire carries a client's connections to a server, or to several. It is safe for concurrent use.
type Wire struct {
	dial func(ctx context.Context, addr string) (net.Conn, error)

	mu     sync.Mutex
	conns  map[*wireConn]struct{}
	faults []*Fault // those that still wait for their command
	silent bool
	deaf   bool
	down   bool
	delay  time.Duration
	watch  func(Command) // nil: nobody watches
}

// New returns an undisturbed Wire, whose connections are made by dial.
func New(dial func(ctx context.Context, addr string) (net.Conn, error)) *Wire {
	return &Wire{dial: dial, conns: make(map[*wireConn]struct{})}
}

// Dial is a Dialer of go-redis.
func (w *Wire) Dial(ctx context.Context, _, addr string) (net.Conn, error) {
	if w.isDown() {
		return nil, errRefused
	}
	conn, err := w.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	c := &wireConn{Conn: conn, addr: addr, wire: w, closed: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down { // Cut came in the meantime, and did not see the connection
		_ = conn.Close()
		return nil, errRefused
	}
	w.conns[c] = struct{}{}
	return c, nil
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

func (w *Wire) isDown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.down
}

// Withhold keeps the next write that contains all of match from the server. The client receives no answer on that connection.
// Fault.Break breaks the connection, and Fault.Send sends the bytes to the server.
func (w *Wire) Withhold(match ...string) *Fault { return w.expect(match, withholds) }

// LoseReply lets the next write that contains all of match through, and breaks the connection instead of delivering the
// server's answer: go-redis then repeats the command. If the client gives the connection up before there is an answer, as it
// may on a busy machine, LoseReply applies to the next such write. HoldReply does the same.
func (w *Wire) LoseReply(match ...string) *Fault { return w.expect(match, losesReply) }

// HoldReply lets the next write that contains all of match through, and holds the server's answer back until Fault.Deliver.
func (w *Wire) HoldReply(match ...string) *Fault { return w.expect(match, holdsReply) }

func (w *Wire) expect(match []string, kind faultKind) *Fault {
	f := &Fault{wire: w, match: match, kind: kind, caught: make(chan struct{}), delivered: make(chan struct{})}
	w.set(func() { w.faults = append(w.faults, f) })
	return f
}

// set changes w by f.
func (w *Wire) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// Silence stops all answers of the server. It still receives and runs commands, also on new connections.
func (w *Wire) Silence() { w.set(func() { w.silent = true }) }

// Swallow makes all connections half-open, also new ones: bytes of both sides are lost, and neither side notices.
func (w *Wire) Swallow() { w.set(func() { w.silent, w.deaf = true, true }) }

// Delay makes the server's answers and messages late by d, until Restore.
func (w *Wire) Delay(d time.Duration) { w.set(func() { w.delay = d }) }

// Deafen loses all bytes of clients, also on new connections, and no client notices. Bytes that the server sends without being
// asked, such as a message to a subscriber, arrive.
func (w *Wire) Deafen() { w.set(func() { w.deaf = true }) }

// Cut breaks all connections and refuses new ones.
func (w *Wire) Cut() {
	w.set(func() { w.down = true })
	w.breakAll(func(*wireConn) bool { return true })
}

// Restore ends Silence, Deafen, Delay, Swallow and Cut. Connections that have lost bytes break.
func (w *Wire) Restore() {
	w.set(func() { w.silent, w.deaf, w.down, w.delay = false, false, false, 0 })
	w.breakAll(func(c *wireConn) bool { return c.missed })
}

func (w *Wire) breakAll(which func(*wireConn) bool) {
	w.mu.Lock()
	var conns []*wireConn
	for c := range w.conns {
		if which(c) {
			conns = append(conns, c)
		}
	}
	w.mu.Unlock()
	for _, c := range conns {
		c.cut()
	}
}

// A Fault is one disturbance of the wire.
type Fault struct {
	wire   *Wire
	match  []string
	kind   faultKind
	caught chan struct{}

	// Of a withheld command, set before caught is closed.
	conn *wireConn
	late []byte

	delivered chan struct{} // closed when a held reply may be delivered
	deliver   sync.Once     // closes it
}

type faultKind int

const (
	withholds faultKind = iota
	losesReply
	holdsReply
)

// Caught is closed when the fault has met its command: when the command was withheld, or its reply lost or held.
func (f *Fault) Caught() <-chan struct{} { return f.caught }

// Break breaks the connection of a withheld command.
func (f *Fault) Break() {
	<-f.caught
	f.conn.cut()
}

// Deliver delivers the held reply to the client. Later calls do nothing.
func (f *Fault) Deliver() { f.deliver.Do(func() { close(f.delivered) }) }

// Send sends the withheld bytes to the server after all, on a new connection, and returns the answer.
func (f *Fault) Send(ctx context.Context) (string, error) {
	<-f.caught
	conn, err := f.wire.dial(ctx, f.conn.addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := conn.Write(append(f.late, "*1\r\n$4\r\nPING\r\n"...)); err != nil {
		return "", err
	}
	var answer []byte
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		answer = append(answer, buf[:n]...)
		if rest, ok := bytes.CutSuffix(answer, []byte("+PONG\r\n")); ok {
			return string(rest), nil
		}
		if err != nil {
			return string(answer), err
		}
	}
}

// A wireConn is one connection.
type wireConn struct {
	net.Conn
	addr   string
	wire   *Wire
	end    sync.Once
	closed chan struct{}

	// Guarded by wire.mu.
	awaits *Fault // the fault that loses or holds the next reply
	missed bool   // bytes of either side were lost
	broken bool
	parser parser
}

// Write sends b, unless a fault is waiting for it.
func (c *wireConn) Write(b []byte) (int, error) {
	w := c.wire
	w.mu.Lock()
	if c.broken {
		w.mu.Unlock()
		return 0, io.EOF
	}
	if w.watch != nil {
		for _, command := range c.parser.parse(b) {
			w.watch(command)
		}
	}
	if w.deaf {
		c.missed = true
		w.mu.Unlock()
		return len(b), nil
	}
	c.missed = c.missed || w.silent // the answer may come as late as Restore
	f := w.faultFor(b)
	switch {
	case f == nil:
	case f.kind == withholds:
		f.conn, f.late = c, bytes.Clone(b)
		close(f.caught)
		w.mu.Unlock()
		return len(b), nil
	default:
		c.awaits = f
	}
	w.mu.Unlock()
	return c.Conn.Write(b)
}

// faultFor removes the first fault that waits for b from the list; w.mu is held.
func (w *Wire) faultFor(b []byte) *Fault {
next:
	for i, f := range w.faults {
		for _, m := range f.match {
			if !bytes.Contains(b, []byte(m)) {
				continue next
			}
		}
		w.faults = append(w.faults[:i:i], w.faults[i+1:]...)
		return f
	}
	return nil
}

// Read delivers the server's bytes, unless they are lost.
func (c *wireConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		c.late(n)
		if held := c.holds(n); held != nil {
			select {
			case <-held:
			case <-c.closed:
			}
		}
		lost, broken := c.loses(n)
		switch {
		case broken:
			c.cut()
			return 0, io.EOF
		case !lost || err != nil:
			return n, err
		}
	}
}

// late waits for the delay of the n bytes from the server.
func (c *wireConn) late(n int) {
	c.wire.mu.Lock()
	d := c.wire.delay
	c.wire.mu.Unlock()
	if n <= 0 || d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-c.closed:
	}
}

// holds returns the channel that is closed when the n bytes from the server may be delivered; nil if they may now.
func (c *wireConn) holds(n int) <-chan struct{} {
	c.wire.mu.Lock()
	defer c.wire.mu.Unlock()
	f := c.awaits
	if n <= 0 || f == nil || f.kind != holdsReply {
		return nil
	}
	c.awaits = nil
	close(f.caught)
	return f.delivered
}

func (c *wireConn) loses(n int) (lost, broken bool) {
	c.wire.mu.Lock()
	defer c.wire.mu.Unlock()
	switch {
	case c.broken:
		return true, true
	case n > 0 && c.awaits != nil:
		close(c.awaits.caught)
		c.awaits = nil
		return true, true
	case n > 0 && c.wire.silent:
		c.missed = true
		return true, false
	}
	return false, c.missed && !c.wire.silent && !c.wire.deaf
}

// SetReadDeadline does not fail on a broken connection: the client has to notice by reading, after which go-redis repeats the
// command.
func (c *wireConn) SetReadDeadline(t time.Time) error {
	return c.unlessBroken(c.Conn.SetReadDeadline(t))
}

// SetWriteDeadline is like SetReadDeadline.
func (c *wireConn) SetWriteDeadline(t time.Time) error {
	return c.unlessBroken(c.Conn.SetWriteDeadline(t))
}

// SetDeadline is like SetReadDeadline.
func (c *wireConn) SetDeadline(t time.Time) error { return c.unlessBroken(c.Conn.SetDeadline(t)) }

func (c *wireConn) unlessBroken(err error) error {
	c.wire.mu.Lock()
	defer c.wire.mu.Unlock()
	if c.broken {
		return nil
	}
	return err
}

// cut breaks the connection: the client sees its end.
func (c *wireConn) cut() {
	c.wire.mu.Lock()
	c.broken = true
	c.wire.mu.Unlock()
	_ = c.shut()
}

// shut closes the connection itself.
func (c *wireConn) shut() error {
	c.end.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// Close closes the connection.
func (c *wireConn) Close() error {
	c.wire.mu.Lock()
	delete(c.wire.conns, c)
	if c.awaits != nil && !c.broken { // the client did not wait for the answer, and may send the command again
		c.wire.faults = append([]*Fault{c.awaits}, c.wire.faults...)
		c.awaits = nil
	}
	c.wire.mu.Unlock()
	return c.shut()
}
