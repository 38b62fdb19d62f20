// Package inspect reads what the locks keep in Redis, and takes locks away from their holders. It takes part
// in no lock.
package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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
	Kept      []KeptPlace
}

// A KeptPlace is one of a caller who is away.
type KeptPlace struct {
	Name  string
	Since time.Time
	TTL   time.Duration
}

// A Found is a key that a scan has come upon, and the names of places that are kept for it. Their callers may be
// there: in the queue, or as the holder.
type Found struct {
	Key  string
	Kept []string
}

// A Waiter is a ticket, or the calls that wait behind the holder in its own process: these have none.
type Waiter struct {
	Ticket, Process, Mode, Label string
	Calls                        int // of its process
	Weight                       int // of a permit that is wanted; 0: it is a lock
	Since                        time.Time

	place string // the name of its kept place
}

// New returns an Inspector of the locks with a prefix. With a quarantine it leaves it to the clients to grant what it frees.
func New(rdb redis.UniversalClient, prefix string, quarantine time.Duration) (*Inspector, error) {
	topology, err := script.TopologyOf(rdb, prefix)
	if err != nil {
		return nil, err
	}
	i := &Inspector{rdb: rdb, topology: topology, layout: script.NewLayout(prefix, topology.Cluster)}
	params := script.DefaultParams(topology.Single)
	params.Quarantine = script.NewQuarantine(rdb, i.layout, quarantine) // it examines no server, and trusts none
	i.scripts = script.NewSet(params)
	return i, nil
}

// Get reads the status of a key, with those of its kept places that are named, in one transaction.
func (i *Inspector) Get(ctx context.Context, key string, kept ...string) (*Status, error) {
	n := i.layout.KeySet(key)
	places, rests := make([]*redis.StringCmd, len(kept)), make([]*redis.DurationCmd, len(kept))
	var holder, tickets, permitTickets *redis.MapStringStringCmd
	var ttl *redis.DurationCmd
	var queue, readers, permits *redis.ZSliceCmd
	var now *redis.TimeCmd
	_, err := i.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		holder, ttl = p.HGetAll(ctx, n.Holder()), p.PTTL(ctx, n.Holder())
		queue, readers = p.ZRangeWithScores(ctx, n.Queue(), 0, -1), p.ZRangeWithScores(ctx, n.ReadQueue(), 0, -1)
		permits, permitTickets = p.ZRangeWithScores(ctx, n.PermitQueue(), 0, -1), p.HGetAll(ctx, n.PermitTickets())
		tickets, now = p.HGetAll(ctx, n.Tickets()), p.Time(ctx)
		for j, name := range kept {
			places[j], rests[j] = p.Get(ctx, n.Kept(name)), p.PTTL(ctx, n.Kept(name))
		}
		return nil
	})
	if err != nil && cmp.Or(holder.Err(), ttl.Err(), queue.Err(), readers.Err(), permits.Err(), tickets.Err(), permitTickets.Err(), now.Err()) == nil {
		err = nil // a kept place is gone
	}
	if err != nil {
		return nil, script.Failure(err)
	}
	s := &Status{Key: key}
	present := make(map[string]bool) // whose callers hold the lock or wait for it
	switch h := holder.Val(); {
	case len(h) == 0:
	case h["mode"] == core.Read.String():
		err = i.readReaders(s, h, now.Val())
	case h["mode"] == core.Permit.String():
		for _, name := range i.readPermits(s, h, now.Val()) {
			present[name] = true
		}
	default:
		err = i.readHolder(s, h, ttl.Val(), now.Val())
		present[script.ParseAbout(h["owner"]).Place] = true
	}
	if err != nil {
		return nil, err
	}
	all := slices.Concat(queue.Val(), readers.Val(), permits.Val())
	maps.Copy(tickets.Val(), permitTickets.Val())
	slices.SortStableFunc(all, func(a, b redis.Z) int { return cmp.Compare(a.Score, b.Score) })
	for _, z := range all {
		if id, _ := z.Member.(string); id != script.ReadersTicket {
			w := i.readTicket(id, tickets.Val())
			s.Waiters = append(s.Waiters, w)
			present[w.place] = true
		}
	}
	for j, name := range kept {
		place, err := strconv.ParseInt(places[j].Val(), 10, 64)
		if err != nil || place <= 0 || present[name] {
			continue // 0: it is over
		}
		s.Kept = append(s.Kept, KeptPlace{Name: name, Since: time.UnixMicro(place), TTL: max(rests[j].Val(), 0)})
	}
	slices.SortFunc(s.Kept, func(a, b KeptPlace) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name)) })
	return s, nil
}

// readPermits reads what permits.lua wrote, of permits whose time is not over; the earliest is the first. It returns the names of
// kept places that they came from.
func (i *Inspector) readPermits(s *Status, h map[string]string, now time.Time) (places []string) {
	for name, value := range h {
		p, ok := script.ParsePermit(value)
		if !ok || !strings.HasPrefix(name, script.PermitField) || !p.Ends.After(now) {
			continue
		}
		h := core.Holder{
			Process: i.layout.ProcessOf(p.Inbox), TraceParent: p.Trace, Token: p.Token, Since: p.Since, TTL: p.Ends.Sub(now),
			Weight: p.Weight, Slots: p.Slots,
		}
		script.DescribeHolder(&h, p.Holder, now)
		s.Mode, s.Holders = core.Permit.String(), append(s.Holders, h)
		places = append(places, script.ParseAbout(p.Holder).Place)
	}
	sortHolders(s.Holders)
	return places
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
				Process:     i.layout.ProcessOf(fields[2]),
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
	sortHolders(s.Holders)
	return nil
}

// sortHolders sorts holders by when they began.
func sortHolders(all []core.Holder) {
	slices.SortFunc(all, func(a, b core.Holder) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Token, b.Token), cmp.Compare(a.Owner, b.Owner))
	})
}

func (i *Inspector) readHolder(s *Status, h map[string]string, ttl time.Duration, now time.Time) error {
	token, tokenErr := strconv.ParseInt(h["token"], 10, 64)
	since, sinceErr := strconv.ParseInt(cmp.Or(h["since"], h["token"]), 10, 64)
	if err := errors.Join(tokenErr, sinceErr); err != nil || h["id"] == "" || h["inbox"] == "" {
		return fmt.Errorf("%w: the hash lacks what a lock has", core.ErrWrongType)
	}
	s.Mode = cmp.Or(h["mode"], core.Exclusive.String())
	s.Holders = []core.Holder{{
		Process:     i.layout.ProcessOf(h["inbox"]),
		TraceParent: h["trace"], Token: token, Since: time.UnixMicro(since), TTL: max(ttl, 0),
	}}
	script.DescribeHolder(&s.Holders[0], h["owner"], now)
	s.Holders[0].Lingers = h["id"] == "-"
	if calls := countOf(h["waiters"]); calls > 0 {
		s.Waiters = append(s.Waiters, Waiter{Process: s.Holders[0].Process, Mode: s.Mode, Calls: calls})
	}
	return nil
}

// countOf reads the count that a field begins with; 0 if it has none.
func countOf(field string) int {
	count, _, _ := strings.Cut(field, " ")
	n, _ := strconv.Atoi(count)
	return max(n, 0)
}

// readTicket reads what acquire.lua and poll.lua wrote of a ticket.
func (i *Inspector) readTicket(id string, tickets map[string]string) Waiter {
	_, calls, _ := strings.Cut(tickets["@"+id], " ")
	w := Waiter{Ticket: id, Calls: max(countOf(calls), 1)}
	if fields := strings.Fields(tickets[id]); len(fields) >= 6 {
		w.Mode, w.Process = fields[0], i.layout.ProcessOf(fields[3])
		about := script.ParseAbout(fields[4])
		w.Label, w.place = about.Label, about.Place
		if w.Mode == core.Permit.String() {
			w.Weight, _ = strconv.Atoi(fields[2])
		}
		if since, err := strconv.ParseInt(fields[5], 10, 64); err == nil {
			w.Since = time.UnixMicro(since)
		}
	}
	return w
}

// All scans for the keys that are held or waited for, or that a place is kept for.
func (i *Inspector) All(ctx context.Context) ([]Found, error) { return i.find(ctx, i.layout.Pattern()) }

// KeptFor scans for the places that are kept for a key.
func (i *Inspector) KeptFor(ctx context.Context, key string) ([]string, error) {
	found, err := i.find(ctx, i.layout.KeptPattern(key))
	for _, f := range found {
		if f.Key == key {
			return f.Kept, err
		}
	}
	return nil, err
}

// find scans for Redis keys that match a pattern. With an error comes what was found before.
func (i *Inspector) find(ctx context.Context, pattern string) (found []Found, err error) {
	nodes, err := i.masters(ctx)
	if err != nil {
		return nil, script.Failure(err)
	}
	index := make(map[string]int) // of a key: one that is held, has a queue and a kept place comes up three times
	seen := make(map[string]bool) // SCAN may give a kept place twice
	add := func(key string) *Found {
		if _, ok := index[key]; !ok {
			index[key] = len(found)
			found = append(found, Found{Key: key})
		}
		return &found[index[key]]
	}
	for _, node := range nodes {
		keys := node.Scan(ctx, 0, pattern, 1000).Iterator()
		for keys.Next(ctx) {
			if key, ok := i.layout.KeyOf(keys.Val()); ok {
				add(key)
			} else if key, name, ok := i.layout.KeptPlaceOf(keys.Val()); ok && !seen[keys.Val()] {
				seen[keys.Val()] = true
				f := add(key)
				f.Kept = append(f.Kept, name)
			}
		}
		if err := keys.Err(); err != nil {
			return found, script.Failure(err)
		}
	}
	return found, nil
}

// masters returns the servers to scan.
func (i *Inspector) masters(ctx context.Context) ([]redis.Cmdable, error) {
	cluster := script.ClusterOf(i.rdb)
	switch {
	case !i.topology.Cluster:
		return []redis.Cmdable{i.rdb}, nil
	case cluster == nil:
		return nil, fmt.Errorf("a redis client of type %T does not show the masters of its Cluster; use the client that it wraps: %w",
			i.rdb, errors.ErrUnsupported)
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
	s := script.NewSender(i.rdb, i.topology, time.Second, script.Replicas{})
	defer s.Stop()
	f := script.Force{Keys: &keys, Token: h.Token, Owner: h.Owner}
	f.Permit = i.rdb.HGet(ctx, keys.Holder(), "mode").Val() == core.Permit.String() // else the script says what there is
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
