package library_test

import (
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A wiretap passes on the bytes of clients and a server, and counts the commands as a counter does.
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

// A counter counts the commands that are written to it, except those that set up a connection: the server does not count the
// unknown ones of them. Commands are arrays of bulk strings, of which it reads the first.
type counter struct {
	n    *atomic.Int64
	line []byte // the beginning of a line
	name []byte // of the command, as far as it is known
	skip int    // remaining bytes of a bulk string
	args int    // bulk strings of the command so far
}

// setsUp names the commands that set up a connection.
var setsUp = []string{"hello", "client"}

func (c *counter) Write(p []byte) (int, error) {
	for i := 0; i < len(p); {
		if c.skip > 0 {
			n := min(c.skip, len(p)-i)
			c.read(p[i : i+n])
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
			c.name, c.args = c.name[:0], 0
		case '$':
			n, err := strconv.Atoi(string(c.line[1 : len(c.line)-2]))
			if err != nil {
				return 0, err
			}
			c.skip = n + 2
			c.args++
		}
		c.line = c.line[:0]
	}
	return len(p), nil
}

// read reads a part of a bulk string and of the end of its line.
func (c *counter) read(part []byte) {
	c.skip -= len(part)
	if c.args > 1 {
		return
	}
	c.name = append(c.name, part...)
	if c.skip == 0 && !slices.Contains(setsUp, strings.ToLower(strings.TrimSpace(string(c.name)))) {
		c.n.Add(1)
	}
}
