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
	address
	Cluster bool // it was detected, or the URL says so
	Timeout time.Duration
}

// forWorkers returns the address to which the command is connected.
func (c *command) forWorkers() (json.RawMessage, error) {
	return json.Marshal(workerAddress{c.redis, c.conn.place.cluster, c.timeout})
}

// connectWorker is the verify.Connect of this program.
func connectWorker(raw json.RawMessage, through func(verify.Dial) *wire.Wire) (redis.UniversalClient, error) {
	var w workerAddress
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, err
	}
	p, err := w.place(w.Timeout, new(secrets))
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
