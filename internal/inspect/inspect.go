// Package inspect reads the state of locks in Redis and releases locks by force. It never acquires a lock itself.
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

// An Inspector reads the data that the lock scripts have written.
type Inspector struct {
	rdb      redis.UniversalClient
	topology transport.Topology
	layout   script.Layout
	scripts  *script.Set
}

// A Status is the stored state of a key.
type Status struct {
	Key, Mode string
	Holders   []core.Holder
	Waiters   []Waiter
	Kept      []KeptPlace
	Record    *Record // nil: the key has none
}

// A KeptPlace is the queue position of a caller that has left and may return.
type KeptPlace struct {
	Name  string
	Since time.Time
	TTL   time.Duration
}

// A Waiter is a ticket, or the calls that wait in the holder's own process, which have no ticket.
type Waiter struct {
	Ticket   string
	Position int // of the ticket in the queue; 0: it has none
	Process  string
	Mode     string
	Calls    int // of its process
	Label    string
	Since    time.Time
	Seen     time.Time // time of the last sign that its process still waits
	Weight   int       // of the wanted permit; 0: it waits for a lock
}

// A Config is the options of the Clients whose locks are inspected.
type Config struct {
	Prefix      string
	SlottedKeys bool
	Quarantine  time.Duration // if it is not 0, clients grant the locks that the Inspector releases, not the Inspector
}

// New returns an Inspector of the locks of such Clients.
func New(rdb redis.UniversalClient, cfg Config) (*Inspector, error) {
	topology, err := transport.TopologyOf(rdb, cfg.Prefix, cfg.SlottedKeys)
	if err == nil {
		err = topology.Check(cfg.Quarantine, transport.Replicas{})
	}
	if err != nil {
		return nil, err
	}
	i := &Inspector{rdb: rdb, topology: topology, layout: script.NewLayout(cfg.Prefix, topology)}
	params := script.DefaultParams(topology.Single)
	params.Quarantine = script.NewQuarantine(rdb, i.layout, cfg.Quarantine) // it verifies no server, so it trusts none
	i.scripts = script.NewSet(params)
	return i, nil
}

// Get reads the status of a key, with the kept places of these names.
func (i *Inspector) Get(ctx context.Context, key string, kept ...string) (*Status, error) {
	s := i.newSender()
	defer s.Stop()
	w := &wanted{key: key, kept: kept}
	i.readAll(ctx, s, []*wanted{w})
	return w.status, w.failure()
}

// newSender returns a Sender for the scripts of one call.
func (i *Inspector) newSender() *transport.Sender {
	return transport.NewSender(i.rdb, i.topology, time.Second, transport.Replicas{})
}

// ForceUnlock ends the hold h, and no other.
func (i *Inspector) ForceUnlock(ctx context.Context, key string, h core.Holder) error {
	keys := i.layout.KeySet(key)
	answer := make(chan *transport.Reply, 1)
	s := i.newSender()
	defer s.Stop()
	f := script.Force{Keys: &keys, Token: h.Token, Owner: h.Owner}
	f.Permit = i.rdb.HGet(ctx, keys.Holder(), "mode").Val() == core.Permit.String() // if HGET fails, the script reports why
	call := f.Call(ctx, i.scripts, func(a *transport.Reply) { answer <- a })
	call.Once = true // a second execution would find no hold, and the release would look like one that came too late
	s.Start(call)
	select {
	case a := <-answer:
		outcome, err := script.EndedAnswer(a)
		if err == nil && outcome == script.NotHeld {
			return fmt.Errorf("%w by the holder that was seen", core.ErrNotHeld)
		}
		if transport.MayHaveRun(err) {
			err = fmt.Errorf("it is unknown whether the hold was ended: %w", err)
		}
		return transport.Failure(err)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", core.ErrUnavailable, ctx.Err())
	}
}
