package inspect

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/transport"
)

// A Server describes a server, from its INFO.
type Server struct {
	Addr, Software, Version, Mode, Role string
	UsedMemory, MaxMemory               int64
	EvictionPolicy                      string
	Uptime                              time.Duration
	Latency                             time.Duration // of a PING
	InfoErr                             error         // the error of INFO; then only Addr and Latency are set
}

// Prefix returns the key prefix of the locks.
func (i *Inspector) Prefix() string { return strings.TrimSuffix(i.layout.InboxPrefix(), ":inbox:") }

// HasSlottedKeys reports whether the locks are laid out for a proxy in front of several servers.
func (i *Inspector) HasSlottedKeys() bool { return i.topology.Sharded }

// Servers returns a description of each master.
func (i *Inspector) Servers(ctx context.Context) ([]Server, error) {
	nodes, err := i.masters(ctx)
	if err != nil {
		return nil, transport.Failure(err)
	}
	servers := make([]Server, len(nodes))
	for j, node := range nodes {
		if err := servers[j].ask(ctx, node); err != nil {
			return nil, transport.Failure(err)
		}
	}
	return servers, nil
}

// ask fails only if the server does not answer PING, because INFO may be denied.
func (s *Server) ask(ctx context.Context, node redis.Cmdable) error {
	if c, ok := node.(interface{ Options() *redis.Options }); ok && c.Options().Addr != "FailoverClient" {
		s.Addr = c.Options().Addr
	}
	for range 2 { // the first PING may include the time to connect
		begun := time.Now()
		if err := node.Ping(ctx).Err(); err != nil {
			return err
		}
		s.Latency = time.Since(begun)
	}
	fields, err := transport.ReadInfo(ctx, node)
	if s.InfoErr = err; err != nil {
		return nil //nolint:nilerr // INFO may be denied
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(fields[name], 10, 64) // 0 if the field is missing
		return n
	}
	s.Software, s.Version = transport.Software(fields)
	s.Mode, s.Role, s.EvictionPolicy = cmp.Or(fields["redis_mode"], fields["server_mode"]), fields["role"], fields["maxmemory_policy"]
	s.UsedMemory, s.MaxMemory = number("used_memory"), number("maxmemory")
	s.Uptime = time.Duration(number("uptime_in_seconds")) * time.Second
	return nil
}
