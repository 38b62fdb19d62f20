package redistest

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/redis/go-redis/v9"
)

// A Proxy stands between clients and a server, on its own port, and disturbs their connections with the toxics of toxiproxy. A
// disturbance replaces the one before; Restore ends it.
//
//	p := s.NewProxy(t)
//	rdb := s.NewClient(t, p.Use)
//	p.Delay(200*time.Millisecond, 100*time.Millisecond)
//
// A Wire sees commands, also those of embedded servers; a Proxy sees bytes, also those of other programs. It is safe for
// concurrent use.
type Proxy struct {
	upstream string
	listener net.Listener
	wg       sync.WaitGroup // of all its goroutines

	mu       sync.Mutex
	links    map[*link]struct{}
	up, down toxics.Toxic // for the client's bytes, and for the server's
	trap     *trap        // nil: none
	cut      func(said []byte) bool
	off      bool
}

// A trap waits for the connection on which certain words are sent first.
type trap struct {
	words  []byte
	caught chan struct{}
}

// NewProxy starts a Proxy in front of s, which ends with the test.
func (s *Server) NewProxy(t testing.TB) *Proxy {
	t.Helper()
	return newProxy(t, s.addr)
}

func newProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("starting a proxy: %v", err)
	}
	p := &Proxy{
		upstream: upstream, listener: listener, links: make(map[*link]struct{}),
		up: new(toxics.NoopToxic), down: new(toxics.NoopToxic),
	}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.Off()
		p.wg.Wait()
	})
	return p
}

// Addr returns the host and port to connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Use makes a client's connections run through p; it is an edit for NewClient.
func (p *Proxy) Use(opts *redis.Options) { opts.Addr, opts.Dialer = p.Addr(), nil }

// Delay makes the server's answers late by latency ± jitter.
func (p *Proxy) Delay(latency, jitter time.Duration) {
	p.disturb(new(toxics.NoopToxic), &toxics.LatencyToxic{Latency: latency.Milliseconds(), Jitter: jitter.Milliseconds()})
}

// Slice makes bytes arrive in random pieces of at most seven, in both directions.
func (p *Proxy) Slice() {
	pieces := &toxics.SlicerToxic{AverageSize: 4, SizeVariation: 3}
	p.disturb(pieces, pieces)
}

// Throttle lets that many kilobytes a second through, on each connection and in each direction.
func (p *Proxy) Throttle(kilobytes int64) {
	p.disturb(&toxics.BandwidthToxic{Rate: kilobytes}, &toxics.BandwidthToxic{Rate: kilobytes})
}

// Swallow makes all connections half-open, also new ones: bytes of both sides are lost, and neither side notices. Restore
// resets the connections.
func (p *Proxy) Swallow() { p.disturb(new(toxics.TimeoutToxic), new(toxics.TimeoutToxic)) }

// SwallowOne makes one connection half-open until Restore: the first one on which either side sends these words. The words are
// the first to be lost. The channel is closed when that has happened.
func (p *Proxy) SwallowOne(words string) (caught <-chan struct{}) {
	t := &trap{words: []byte(words), caught: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = t
	return t.caught
}

// SwallowThose makes connections half-open until Restore, also new ones. It picks them by the client's first bytes, at most
// saidLen of them.
func (p *Proxy) SwallowThose(cut func(said []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for l := range p.links {
		p.judge(l)
	}
}

// judge swallows the connections that have to be cut; Proxy.mu is held.
func (p *Proxy) judge(l *link) {
	if p.cut != nil && !l.missing && p.cut(l.said) {
		l.disturb(new(toxics.TimeoutToxic), new(toxics.TimeoutToxic))
	}
}

// Reset resets all connections; new ones are accepted.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
}

// Off resets all connections, and every new one.
func (p *Proxy) Off() {
	p.mu.Lock()
	p.off = true
	p.mu.Unlock()
	p.Reset()
}

// Restore ends the disturbance. Connections that have lost bytes are reset.
func (p *Proxy) Restore() {
	p.mu.Lock()
	p.off, p.trap, p.cut = false, nil, nil
	p.mu.Unlock()
	p.disturb(new(toxics.NoopToxic), new(toxics.NoopToxic))
}

func (p *Proxy) disturb(up, down toxics.Toxic) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up, p.down = up, down
	for l := range p.links {
		l.disturb(up, down)
	}
}

// saidLen limits how much of the clients' first bytes is remembered.
const saidLen = 512

// heard receives the bytes of a client or the server on l.
func (p *Proxy) heard(l *link, b []byte, client bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if more := min(len(b), saidLen-len(l.said)); client && more > 0 {
		l.said = append(l.said, b[:more]...)
		p.judge(l)
	}
	if t := p.trap; t != nil && bytes.Contains(b, t.words) {
		p.trap = nil
		l.disturb(new(toxics.TimeoutToxic), new(toxics.TimeoutToxic))
		close(t.caught)
	}
}

// accept ends with the listener.
func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.upstream, 5*time.Second)
	if err != nil {
		hangUp(client)
		return
	}
	l := newLink(client, server)
	p.mu.Lock()
	if p.off {
		l.reset()
	}
	p.links[l] = struct{}{}
	l.start(p)
	p.mu.Unlock()
	l.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}
