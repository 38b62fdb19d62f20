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

// A Server is what a server says of itself.
type Server struct {
	Addr, Software, Version, Mode, Role string
	UsedMemory, MaxMemory               int64
	EvictionPolicy                      string
	Uptime                              time.Duration
	Latency                             time.Duration // of a PING
	InfoErr                             error         // why all but Addr and Latency is empty
}

// Prefix returns that of the locks.
func (i *Inspector) Prefix() string { return strings.TrimSuffix(i.layout.InboxPrefix(), ":inbox:") }

// Servers asks the masters what they are.
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

// ask fails only if the server does not answer: INFO may be forbidden.
func (s *Server) ask(ctx context.Context, node redis.Cmdable) error {
	if c, ok := node.(interface{ Options() *redis.Options }); ok && c.Options().Addr != "FailoverClient" {
		s.Addr = c.Options().Addr
	}
	for range 2 { // the first PING may have to connect
		begun := time.Now()
		if err := node.Ping(ctx).Err(); err != nil {
			return err
		}
		s.Latency = time.Since(begun)
	}
	fields, err := transport.ReadInfo(ctx, node)
	if s.InfoErr = err; err != nil {
		return nil //nolint:nilerr // the server may refuse to say more
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(fields[name], 10, 64) // 0 if the server does not say
		return n
	}
	s.Software, s.Version = transport.Software(fields)
	s.Mode, s.Role, s.EvictionPolicy = cmp.Or(fields["redis_mode"], fields["server_mode"]), fields["role"], fields["maxmemory_policy"]
	s.UsedMemory, s.MaxMemory = number("used_memory"), number("maxmemory")
	s.Uptime = time.Duration(number("uptime_in_seconds")) * time.Second
	return nil
}
