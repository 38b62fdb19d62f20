package library_test

import (
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// A wiretap passes on the bytes of clients and a server, and counts the commands.
type wiretap struct {
	addr     string
	commands atomic.Int64
}

func tap(t *testing.T, to string) *wiretap {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wiretap{addr: listener.Addr().String()}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", to)
			if err != nil {
				t.Error(err)
				_ = client.Close()
				return
			}
			wg.Go(func() { copyAndClose(upstream, io.TeeReader(client, &counter{n: &w.commands})) })
			wg.Go(func() { copyAndClose(client, upstream) })
		}
	})
	return w
}

func copyAndClose(to net.Conn, from io.Reader) {
	_, _ = io.Copy(to, from) // until one side hangs up
	_ = to.Close()
}

// A counter counts the commands that are written to it. They are arrays of bulk strings, whose contents it skips.
type counter struct {
	n    *atomic.Int64
	line []byte // the beginning of a line
	skip int    // remaining bytes of a bulk string
}

func (c *counter) Write(p []byte) (int, error) {
	for i := 0; i < len(p); {
		if c.skip > 0 {
			n := min(c.skip, len(p)-i)
			c.skip -= n
			i += n
			continue
		}
		c.line = append(c.line, p[i])
		i++
		if p[i-1] != '\n' {
			continue
		}
		switch c.line[0] {
		case '*':
			c.n.Add(1)
		case '$':
			n, err := strconv.Atoi(string(c.line[1 : len(c.line)-2]))
			if err != nil {
				return 0, err
			}
			c.skip = n + 2
		}
		c.line = c.line[:0]
	}
	return len(p), nil
}
