package lockmw

import (
	"context"
	"iter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/inspect"
)

// A Server describes a Redis server that keeps locks. If InfoErr is set, only Addr and Latency are known.
type Server struct {
	Addr           string // host:port; "" if the redis client does not show it, as with Sentinel
	Software       string // redis, valkey, dragonfly, garnet or kvrocks
	Version        string
	Mode           string // standalone or cluster
	Role           string // master, or slave if the client is connected to a replica, which grants no locks
	UsedMemory     int64  // bytes
	MaxMemory      int64  // bytes; 0: no limit, or unknown
	EvictionPolicy string // maxmemory-policy
	Uptime         time.Duration
	Latency        time.Duration // of a PING
	InfoErr        error         // why INFO failed, usually because the user may not send it
}

// Redis returns the redis client of i.
func (i *Inspector) Redis() redis.UniversalClient {
	i.made(context.Background())
	return i.rdb
}

// Prefix returns the prefix of the locks that i shows.
func (i *Inspector) Prefix() string { return i.made(context.Background()).Prefix() }

// HasSlottedKeys reports whether i was made with WithSlottedKeys.
func (i *Inspector) HasSlottedKeys() bool { return i.made(context.Background()).HasSlottedKeys() }

// Queued yields the status of every key with tickets in its queue, and of every key in also that is held, in no particular order
// and without kept places. Calls that wait in the holder's own process have no ticket. Queued scans like All, with its options
// and errors, but reads much less: it can run every few seconds with many locks.
func (i *Inspector) Queued(ctx context.Context, also []string, opts ...ScanOption) iter.Seq2[Status, error] {
	return scanned(opts, func(how inspect.Scan) iter.Seq2[*inspect.Status, error] { return i.made(ctx).Queued(ctx, also, how) })
}

// Read yields the status of each of keys that is held or waited for, in no particular order and without kept places. It skips
// free keys. It reads in pipelines, with the options, limits and errors of All.
func (i *Inspector) Read(ctx context.Context, keys []string, opts ...ScanOption) iter.Seq2[Status, error] {
	return scanned(opts, func(how inspect.Scan) iter.Seq2[*inspect.Status, error] { return i.made(ctx).Read(ctx, keys, how) })
}

// Servers describes the server, or all masters of a Cluster, in no particular order. A user without the right to INFO gets only
// address and latency. An error is an *Error that wraps ErrUnavailable.
func (i *Inspector) Servers(ctx context.Context) ([]Server, error) {
	seen, err := i.made(ctx).Servers(ctx)
	if err != nil {
		return nil, &Error{Op: "inspect", Err: err}
	}
	servers := make([]Server, len(seen))
	for j, s := range seen {
		servers[j] = Server(s)
	}
	return servers, nil
}
