// Package inspect reads what the locks keep in Redis, and takes locks away from their holders. It takes part
// in no lock.
package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// An Inspector reads what the scripts wrote.
type Inspector struct {
	rdb      redis.UniversalClient
	topology transport.Topology
	layout   script.Layout
	scripts  *script.Set
}

// A Status is what is stored for a key.
type Status struct {
	Key, Mode string
	Holders   []core.Holder
	Waiters   []Waiter
	Kept      []KeptPlace
}

// A KeptPlace is one of a caller who is away.
type KeptPlace struct {
	Name  string
	Since time.Time
	TTL   time.Duration
}

// A Waiter is a ticket, or the calls that wait behind the holder in its own process: these have none.
type Waiter struct {
	Ticket, Process, Mode, Label string
	Calls                        int // of its process
	Weight                       int // of a permit that is wanted; 0: it is a lock
	Since                        time.Time
	Seen                         time.Time // when its process has last shown that it waits

	place string // the name of its kept place
}

// New returns an Inspector of the locks with a prefix. With a quarantine it leaves it to the clients to grant what it frees.
func New(rdb redis.UniversalClient, prefix string, quarantine time.Duration) (*Inspector, error) {
	topology, err := transport.TopologyOf(rdb, prefix)
	if err != nil {
		return nil, err
	}
	i := &Inspector{rdb: rdb, topology: topology, layout: script.NewLayout(prefix, topology.Cluster)}
	params := script.DefaultParams(topology.Single)
	params.Quarantine = script.NewQuarantine(rdb, i.layout, quarantine) // it examines no server, and trusts none
	i.scripts = script.NewSet(params)
	return i, nil
}

// Get reads the status of a key, with those of its kept places that are named.
func (i *Inspector) Get(ctx context.Context, key string, kept ...string) (*Status, error) {
	s := i.newSender()
	defer s.Stop()
	w := &wanted{key: key, kept: kept}
	i.readAll(ctx, s, []*wanted{w})
	return w.status, w.failure()
}

// newSender returns what sends scripts for one call.
func (i *Inspector) newSender() *transport.Sender {
	return transport.NewSender(i.rdb, i.topology, time.Second, transport.Replicas{})
}

// ForceUnlock takes a lock away from the holder that was seen.
func (i *Inspector) ForceUnlock(ctx context.Context, key string, h core.Holder) error {
	keys := i.layout.KeySet(key)
	answer := make(chan *transport.Reply, 1)
	s := i.newSender()
	defer s.Stop()
	f := script.Force{Keys: &keys, Token: h.Token, Owner: h.Owner}
	f.Permit = i.rdb.HGet(ctx, keys.Holder(), "mode").Val() == core.Permit.String() // else the script says what there is
	s.Start(f.Call(ctx, i.scripts, func(a *transport.Reply) { answer <- a }))
	select {
	case a := <-answer:
		outcome, err := script.ForceAnswer(a)
		if err == nil && outcome == script.NotHeld {
			return fmt.Errorf("%w by the holder that was seen", core.ErrNotHeld)
		}
		return transport.Failure(err)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", core.ErrUnavailable, ctx.Err())
	}
}
