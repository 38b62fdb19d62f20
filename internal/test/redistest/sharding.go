package redistest

import (
	"bufio"
	"context"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// NewShardingProxy starts a proxy in front of the masters of c, which ends with the test, and returns its address. Like the proxies
// of managed services it sends each command to the server of its first key. The servers refuse scripts whose keys, declared or
// not, are elsewhere. Commands without a key, and subscriptions, go to one of the masters.
func (c *Cluster) NewShardingProxy(t testing.TB) (addr string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("starting a proxy: %v", err)
	}
	shards := c.Client(t)
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p := &shardedConn{cluster: shards, any: c.Addrs()[0], client: client, in: bufio.NewReader(client), conns: make(map[string]*shard)}
			wg.Go(func() { p.serve(context.WithoutCancel(t.Context())) }) // until the client closes it, which is after the test
		}
	})
	return listener.Addr().String()
}

// A shardedConn is a client's connection to a sharding proxy.
type shardedConn struct {
	cluster    *redis.ClusterClient
	any        string // the server for commands without a key
	client     net.Conn
	in         *bufio.Reader
	conns      map[string]*shard
	subscribed bool
}

// A shard is a connection to one of the servers behind a sharding proxy.
type shard struct {
	net.Conn
	out *bufio.Reader
}

func (p *shardedConn) serve(ctx context.Context) {
	defer func() {
		_ = p.client.Close()
		for _, s := range p.conns {
			_ = s.Close()
		}
	}()
	for {
		raw, words, err := readValue(p.in, nil)
		if err != nil || len(words) == 0 || p.forward(ctx, raw, words) != nil {
			return
		}
	}
}

// forward sends a command to its server, and passes the answer on. All that follows on a subscribed connection goes to one server.
func (p *shardedConn) forward(ctx context.Context, raw []byte, words []string) error {
	if strings.EqualFold(words[0], "hello") { // so the client speaks RESP 2
		_, err := p.client.Write([]byte("-ERR unknown command 'hello'\r\n"))
		return err
	}
	s, err := p.shardOf(ctx, words)
	if err != nil {
		return err
	}
	if strings.EqualFold(words[0], "subscribe") && !p.subscribed {
		p.subscribed = true
		go func() { _, _ = io.Copy(p.client, s.out) }() // ends with serve, which closes both
	}
	if _, err := s.Write(raw); err != nil || p.subscribed {
		return err
	}
	answer, _, err := readValue(s.out, nil)
	if err == nil {
		_, err = p.client.Write(answer)
	}
	return err
}

func (p *shardedConn) shardOf(ctx context.Context, words []string) (*shard, error) {
	addr := p.any
	if key := firstKey(words); key != "" && !p.subscribed {
		node, err := p.cluster.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		addr = node.Options().Addr
	}
	if s := p.conns[addr]; s != nil {
		return s, nil
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &shard{conn, bufio.NewReader(conn)}
	p.conns[addr] = s
	return s, nil
}

// keyless are commands without a key that clients of locks send.
var keyless = []string{"client", "auth", "ping", "info", "time", "scan", "config", "script", "publish", "subscribe", "unsubscribe", "cluster"}

// firstKey returns the first key of a command; "" if it has none.
func firstKey(words []string) string {
	at := 1
	if name := strings.ToLower(words[0]); name == "evalsha" || name == "eval" {
		at = 3
	} else if slices.Contains(keyless, name) {
		return ""
	}
	if at >= len(words) {
		return ""
	}
	return words[at]
}

// readValue reads a value of RESP 2. It returns its bytes after those in raw, and the strings that it contains.
func readValue(in *bufio.Reader, raw []byte) (_ []byte, words []string, err error) {
	line, err := in.ReadBytes('\n')
	raw = append(raw, line...)
	if err != nil {
		return raw, nil, err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(line[1:]))) // 0 for other types
	switch line[0] {
	case '$':
		if n < 0 {
			return raw, nil, nil
		}
		text := make([]byte, n+2)
		_, err = io.ReadFull(in, text)
		return append(raw, text...), []string{string(text[:n])}, err
	case '*':
		for range n {
			var some []string
			if raw, some, err = readValue(in, raw); err != nil {
				return raw, nil, err
			}
			words = append(words, some...)
		}
	}
	return raw, words, nil
}
