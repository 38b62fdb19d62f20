// Package inspect reads what the locks keep in Redis, and takes locks away from their holders. It takes part
// in no lock.
package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// An Inspector reads what the scripts wrote.
type Inspector struct {
	rdb      redis.UniversalClient
	topology script.Topology
	layout   script.Layout
	scripts  *script.Set
}

// A Status is what is stored for a key.
type Status struct {
	Key, Mode string
	Holders   []core.Holder
	Waiters   []Waiter
}

// A Waiter is a ticket.
type Waiter struct {
	Ticket, Process, Mode, Label string
	Since                        time.Time
}

// New returns an Inspector of the locks with a prefix.
func New(rdb redis.UniversalClient, prefix string) (*Inspector, error) {
	topology, err := script.TopologyOf(rdb)
	if err != nil {
		return nil, err
	}
	return &Inspector{
		rdb: rdb, topology: topology,
		layout:  script.NewLayout(prefix, topology.Cluster),
		scripts: script.NewSet(script.DefaultParams(topology.Single)),
	}, nil
}

// Get reads the status of a key in one transaction.
func (i *Inspector) Get(ctx context.Context, key string) (*Status, error) {
	n := i.layout.KeySet(key)
	var holder, tickets *redis.MapStringStringCmd
	var ttl *redis.DurationCmd
	var queue, readers *redis.ZSliceCmd
	var now *redis.TimeCmd
	_, err := i.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		holder, ttl = p.HGetAll(ctx, n.Holder()), p.PTTL(ctx, n.Holder())
		queue, readers = p.ZRangeWithScores(ctx, n.Queue(), 0, -1), p.ZRangeWithScores(ctx, n.ReadQueue(), 0, -1)
		tickets, now = p.HGetAll(ctx, n.Tickets()), p.Time(ctx)
		return nil
	})
	if err != nil {
		return nil, script.Failure(err)
	}
	s := &Status{Key: key}
	switch h := holder.Val(); {
	case len(h) == 0:
	case h["mode"] == core.Read.String():
		err = i.readReaders(s, h, now.Val())
	default:
		err = i.readHolder(s, h, ttl.Val(), now.Val())
	}
	if err != nil {
		return nil, err
	}
	all := slices.Concat(queue.Val(), readers.Val())
	slices.SortStableFunc(all, func(a, b redis.Z) int { return cmp.Compare(a.Score, b.Score) })
	for _, z := range all {
		if id, _ := z.Member.(string); id != script.ReadersTicket {
			s.Waiters = append(s.Waiters, i.readTicket(id, tickets.Val()))
		}
	}
	return s, nil
}

// readReaders reads what readers.lua wrote, of those whose time is not over; the earliest is the first.
func (i *Inspector) readReaders(s *Status, h map[string]string, now time.Time) error {
	token, err := strconv.ParseInt(h["token"], 10, 64)
	for name, value := range h {
		if !strings.HasPrefix(name, "reader:") || err != nil {
			continue
		}
		fields := append(strings.Split(value, " "), "")
		if len(fields) < 6 {
			err = errors.New("a reader lacks fields")
			break
		}
		ends, endsErr := strconv.ParseInt(fields[0], 10, 64)
		since, sinceErr := strconv.ParseInt(fields[1], 10, 64)
		err = errors.Join(endsErr, sinceErr)
		if ttl := time.UnixMilli(ends).Sub(now); ttl > 0 {
			h := core.Holder{
				Process:     strings.TrimPrefix(fields[2], i.layout.InboxPrefix()),
				TraceParent: fields[4], Token: token, Since: time.UnixMicro(since), TTL: ttl,
			}
			script.DescribeHolder(&h, fields[3], now)
			s.Holders = append(s.Holders, h)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: the hash lacks what a lock has", core.ErrWrongType)
	}
	if len(s.Holders) > 0 {
		s.Mode = core.Read.String()
	}
	slices.SortFunc(s.Holders, func(a, b core.Holder) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Owner, b.Owner))
	})
	return nil
}

func (i *Inspector) readHolder(s *Status, h map[string]string, ttl time.Duration, now time.Time) error {
	token, tokenErr := strconv.ParseInt(h["token"], 10, 64)
	since, sinceErr := strconv.ParseInt(cmp.Or(h["since"], h["token"]), 10, 64)
	if err := errors.Join(tokenErr, sinceErr); err != nil || h["id"] == "" || h["inbox"] == "" {
		return fmt.Errorf("%w: the hash lacks what a lock has", core.ErrWrongType)
	}
	s.Mode = cmp.Or(h["mode"], core.Exclusive.String())
	s.Holders = []core.Holder{{
		Process:     strings.TrimPrefix(h["inbox"], i.layout.InboxPrefix()),
		TraceParent: h["trace"], Token: token, Since: time.UnixMicro(since), TTL: max(ttl, 0),
	}}
	script.DescribeHolder(&s.Holders[0], h["owner"], now)
	s.Holders[0].Lingers = h["id"] == "-"
	return nil
}

// readTicket reads what acquire.lua wrote of a ticket.
func (i *Inspector) readTicket(id string, tickets map[string]string) Waiter {
	w := Waiter{Ticket: id}
	if fields := strings.Fields(tickets[id]); len(fields) >= 6 {
		w.Mode, w.Process = fields[0], strings.TrimPrefix(fields[3], i.layout.InboxPrefix())
		w.Label = script.ParseAbout(fields[4]).Label
		if since, err := strconv.ParseInt(fields[5], 10, 64); err == nil {
			w.Since = time.UnixMicro(since)
		}
	}
	return w
}

// Keys scans for the keys that are held or waited for. An error ends it.
func (i *Inspector) Keys(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		nodes, err := i.masters(ctx)
		if err != nil {
			yield("", script.Failure(err))
			return
		}
		seen := make(map[string]bool) // a held key with a queue, or one that SCAN gives twice
		for _, node := range nodes {
			if !i.scan(ctx, node, seen, yield) {
				return
			}
		}
	}
}

func (i *Inspector) scan(ctx context.Context, node redis.Cmdable, seen map[string]bool, yield func(string, error) bool) bool {
	keys := node.Scan(ctx, 0, i.layout.Pattern(), 1000).Iterator()
	for keys.Next(ctx) {
		key, ok := i.layout.KeyOf(keys.Val())
		if !ok || seen[key] {
			continue
		}
		seen[key] = true
		if !yield(key, nil) {
			return false
		}
	}
	if err := keys.Err(); err != nil {
		return yield("", script.Failure(err))
	}
	return true
}

// masters returns the servers to scan.
func (i *Inspector) masters(ctx context.Context) ([]redis.Cmdable, error) {
	cluster, ok := i.rdb.(*redis.ClusterClient)
	if !ok {
		return []redis.Cmdable{i.rdb}, nil
	}
	found := make(chan redis.Cmdable, 1000) // the most nodes a Cluster has
	err := cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		found <- node
		return nil
	})
	close(found)
	var nodes []redis.Cmdable
	for node := range found {
		nodes = append(nodes, node)
	}
	return slices.Clip(nodes), err
}

// ForceUnlock takes a lock away from the holder that was seen.
func (i *Inspector) ForceUnlock(ctx context.Context, key string, h core.Holder) error {
	keys := i.layout.KeySet(key)
	answer := make(chan *script.Reply, 1)
	s := script.NewSender(i.rdb, i.topology, time.Second)
	defer s.Stop()
	f := script.Force{Keys: &keys, Token: h.Token, Owner: h.Owner}
	s.Start(f.Call(ctx, i.scripts, func(a *script.Reply) { answer <- a }))
	select {
	case a := <-answer:
		outcome, err := a.Forced()
		if err == nil && outcome == script.NotHeld {
			return fmt.Errorf("%w by the holder that was seen", core.ErrNotHeld)
		}
		return script.Failure(err)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", core.ErrUnavailable, ctx.Err())
	}
}
