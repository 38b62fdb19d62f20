package lockmw

import (
	"context"
	"iter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/inspect"
)

// A Server is what a Redis server that has locks says of itself.
type Server struct {
	Addr           string // host:port; "" if the redis client does not show it, as that of Sentinel
	Software       string // redis, valkey, dragonfly, garnet or kvrocks; "" with InfoErr, as all that follows
	Version        string
	Mode           string // standalone or cluster
	Role           string // master; slave if the client talks to a replica, where no lock can be had
	UsedMemory     int64  // bytes
	MaxMemory      int64  // bytes; 0: no limit, or unknown
	EvictionPolicy string // maxmemory-policy
	Uptime         time.Duration
	Latency        time.Duration // of a PING just now
	InfoErr        error         // why INFO was not answered: most often the user may not ask
}

// Redis returns the redis client that i looks through.
func (i *Inspector) Redis() redis.UniversalClient {
	i.made(context.Background())
	return i.rdb
}

// Prefix returns the prefix of the locks that i looks at.
func (i *Inspector) Prefix() string { return i.made(context.Background()).Prefix() }

// Queued yields the status of every key that calls wait for with a ticket, and of those in also that are held, in no order, without
// kept places. Calls that wait behind the holder in its own process have no ticket. It scans like All, but reads so much less that it
// can be asked every few seconds with many locks. It takes All's options. An error is like All's.
func (i *Inspector) Queued(ctx context.Context, also []string, opts ...ScanOption) iter.Seq2[Status, error] {
	return scanned(opts, func(how inspect.Scan) iter.Seq2[*inspect.Status, error] { return i.made(ctx).Queued(ctx, also, how) })
}

// Read yields the status of each of keys, in no order, without kept places, and nothing of those that are free. It reads them in
// pipelines, at All's share of each server's time, and takes All's options. An error is like All's.
func (i *Inspector) Read(ctx context.Context, keys []string, opts ...ScanOption) iter.Seq2[Status, error] {
	return scanned(opts, func(how inspect.Scan) iter.Seq2[*inspect.Status, error] { return i.made(ctx).Read(ctx, keys, how) })
}

// Servers returns what the server says of itself; in a Cluster all masters, in no order. A user without the right to INFO
// learns the latency only. An error is an *Error that wraps ErrUnavailable.
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
