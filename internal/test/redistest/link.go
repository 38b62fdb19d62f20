package redistest

import (
	"net"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// A link is one connection through a Proxy. Only the toxics are toxiproxy's: its own links never end when a connection breaks
// while a toxic sends, and it cannot pick a connection.
type link struct {
	up, down *flow
	wg       sync.WaitGroup
	missing  bool   // some bytes did not arrive; Proxy.mu guards it
	said     []byte // the client's first bytes; Proxy.mu guards it
}

// A flow is one direction of a link: the bytes that are read from one side pass through a toxic, which a stub ties to the
// channels, and are written to the other side.
type flow struct {
	from, to net.Conn
	read     chan<- *stream.StreamChunk
	written  <-chan *stream.StreamChunk
	stub     *toxics.ToxicStub
}

func newLink(client, server net.Conn) *link {
	return &link{up: newFlow(client, server), down: newFlow(server, client)}
}

func newFlow(from, to net.Conn) *flow {
	// Delayed bytes are buffered, so that a delay does not slow the connection down.
	in, out := make(chan *stream.StreamChunk, 1024), make(chan *stream.StreamChunk)
	return &flow{from: from, to: to, read: in, written: out, stub: toxics.NewToxicStub(in, out)}
}

// start begins to serve the link; p.mu is held.
func (l *link) start(p *Proxy) {
	for _, f := range []*flow{l.up, l.down} {
		l.wg.Go(func() { f.reading(func(b []byte) { p.heard(l, b, f == l.up) }) })
		l.wg.Go(func() { f.writing(l.reset) })
	}
	l.run(l.up, p.up)
	l.run(l.down, p.down)
}

func (l *link) run(f *flow, t toxics.Toxic) {
	_, swallows := t.(*toxics.TimeoutToxic)
	l.missing = l.missing || swallows
	l.wg.Go(func() { f.stub.Run(&toxics.ToxicWrapper{Toxic: t, Toxicity: 1}) })
}

// disturb replaces the toxics; Proxy.mu is held.
func (l *link) disturb(up, down toxics.Toxic) {
	if _, swallows := up.(*toxics.TimeoutToxic); l.missing && !swallows {
		l.reset()
		return
	}
	if l.up.stub.InterruptToxic() {
		l.run(l.up, up)
	}
	if l.down.stub.InterruptToxic() {
		l.run(l.down, down)
	}
}

// reset makes both sides see a reset connection.
func (l *link) reset() {
	hangUp(l.up.from)
	hangUp(l.up.to)
}

// hangUp closes a connection so that the other side sees a reset.
func hangUp(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0) // fails if the connection is closed
	_ = conn.Close()
}

// reading ends with the connection.
func (f *flow) reading(heard func([]byte)) {
	defer close(f.read) // ends the toxic, whatever it is
	for {
		b := make([]byte, 16<<10)
		n, err := f.from.Read(b)
		if n > 0 {
			heard(b[:n])
			f.read <- &stream.StreamChunk{Data: b[:n], Timestamp: time.Now()}
		}
		if err != nil {
			return
		}
	}
}

// writing ends with the toxic, which nothing may keep from ending.
func (f *flow) writing(broken func()) {
	for chunk := range f.written {
		if _, err := f.to.Write(chunk.Data); err != nil {
			broken()
		}
	}
	_ = f.to.Close()
}
