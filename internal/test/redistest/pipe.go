package redistest

import (
	"net"
	"sync"
)

// A pipe is the client's end of a net.Pipe to miniredis. A net.Pipe has no buffer: a client that writes a long pipeline and a
// server that answers its first command would wait for each other. So writes are queued, and a goroutine passes them on.
type pipe struct {
	net.Conn

	mu     sync.Mutex
	filled sync.Cond
	queue  [][]byte
	closed bool
}

func newPipe(conn net.Conn) *pipe {
	p := &pipe{Conn: conn}
	p.filled.L = &p.mu
	go p.deliver()
	return p
}

// Write queues b.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, net.ErrClosed
	}
	p.queue = append(p.queue, append([]byte(nil), b...))
	p.filled.Signal()
	return len(b), nil
}

// Close drops the queue.
func (p *pipe) Close() error {
	p.mu.Lock()
	p.closed = true
	p.filled.Signal()
	p.mu.Unlock()
	return p.Conn.Close()
}

// deliver ends with the connection.
func (p *pipe) deliver() {
	for {
		p.mu.Lock()
		for len(p.queue) == 0 && !p.closed {
			p.filled.Wait()
		}
		if p.closed {
			p.mu.Unlock()
			return
		}
		queue := p.queue
		p.queue = nil
		p.mu.Unlock()
		for _, b := range queue {
			if _, err := p.Conn.Write(b); err != nil {
				_ = p.Close()
				return
			}
		}
	}
}
