package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/cmd/lockmw/internal/verify"
	"github.com/lockmw/go/internal/wire"
)

// A workerAddress is an address for the processes of verify. It goes through a pipe, because it contains the password.
type workerAddress struct {
	URL, User, Password, CA, Cert, Key string
	Cluster                            bool // it was detected, or the URL says so
	Timeout                            time.Duration
}

// forWorkers returns the address to which the command is connected.
func (c *command) forWorkers() (json.RawMessage, error) {
	a := c.redis
	return json.Marshal(workerAddress{a.url, a.user, a.password, a.ca, a.cert, a.key, c.conn.place.cluster, c.timeout}) //nolint:gosec // a worker runs as the same user, who alone can read its environment
}

// connectWorker is the verify.Connect of this program.
func connectWorker(raw json.RawMessage, through func(verify.Dial) *wire.Wire) (redis.UniversalClient, error) {
	var w workerAddress
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, err
	}
	a := address{url: w.URL, user: w.User, password: w.Password, ca: w.CA, cert: w.Cert, key: w.Key}
	p, err := a.place(w.Timeout, new(secrets))
	if err != nil {
		return nil, err
	}
	p.cluster = w.Cluster
	p.options.Dialer = through(p.dial).Dial
	return p.client(), nil
}

// dial connects to a server. A client with its own Dialer leaves TLS to it.
func (p *place) dial(ctx context.Context, addr string) (net.Conn, error) {
	d := &net.Dialer{Timeout: p.options.DialTimeout}
	if p.options.TLSConfig == nil {
		return d.DialContext(ctx, "tcp", addr)
	}
	return (&tls.Dialer{NetDialer: d, Config: p.options.TLSConfig}).DialContext(ctx, "tcp", addr)
}
