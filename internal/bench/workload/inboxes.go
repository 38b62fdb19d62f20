package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/server"
)

// inboxes: on a Cluster, one process holds n keys, and each of n goroutines of another process waits for one of them. Its sharded
// channels are counted. Then a node ends the connections of its subscribers, as after a fail-over, and the subscriptions that replace
// them are counted.
func inboxes(n int) Workload {
	return Workload{
		Name: SizeName("inboxes", n), About: fmt.Sprintf("%d goroutines wait for a key each, on a Cluster: sharded channels", n),
		Processes: 2, Keys: n, Wait: library.Long, Once: true, Long: n > inboxesMost, Runs: only("lockmw"), Cluster: HasLocks,
		Window: func(d time.Duration) time.Duration { return max(2*d, time.Second) },
		Extra:  2 * waitedLimit,
		work: func(w *Worker) error {
			if w.Config.Index == 0 {
				return w.holdWhileCounted(n)
			}
			return w.subscribe(n)
		},
	}
}

// inboxesMost is the greatest number of keys of a quick run.
const inboxesMost = 1000

// The figures of inboxes, in addition to RestCommands of the waiting process.
const (
	Channels        = "channels"             // of all nodes
	ChannelsPerNode = "channels_per_node"    // of the node with the most
	ChannelsPerSlot = "channels_per_slot"    // for each slot of a key that is waited for
	SubscribesPer   = "ssubscribe_per_inbox" // SSUBSCRIBE after a node has ended all subscriptions, for each channel of the node
	ResubscribeTime = "resubscribe_ms"       // until all channels of that node were subscribed again
)

// holdWhileCounted holds n keys until the other process has counted.
func (w *Worker) holdWhileCounted(n int) error {
	l, _, err := w.holdKeys(n)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := w.start(); err != nil {
		return err
	}
	return w.finish(&Report{})
}

// subscribe waits for n keys and counts the channels.
func (w *Worker) subscribe(n int) error {
	l, sent, err := w.openCounted()
	if err != nil {
		return err
	}
	defer l.Close()
	nodes := l.RDB.(*redis.ClusterClient) //nolint:forcetypeassert // the workload runs on a Cluster
	slots, err := slotsOf(nodes, w.keys(n))
	if err != nil {
		return err
	}
	if err := w.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	t := newTakers(l, w.page, w.keys(n))
	if err := t.queue(ctx); err != nil {
		return err
	}
	counts, err := awaitChannels(nodes, slots)
	if err != nil {
		return err
	}
	r := &Report{More: make(map[string]float64)}
	counts.note(r.More, slots)
	sent.reset()
	begun := time.Now()
	if err := library.Pause(ctx, w.Window); err != nil {
		return err
	}
	r.More[RestCommands] = float64(sent.commands.Load()) / time.Since(begun).Seconds()
	if err := resubscribe(nodes, slots, r.More); err != nil {
		return err
	}
	return w.finish(r)
}

// slotsOf counts the slots of locks.
func slotsOf(nodes *redis.ClusterClient, keys []string) (int, error) {
	slots := make(map[int64]bool)
	for _, key := range keys {
		slot, err := nodes.ClusterKeySlot(context.Background(), "lockmw:{"+key+"}").Result()
		if err != nil {
			return 0, err
		}
		slots[slot] = true
	}
	return len(slots), nil
}

// channelCounts has the number of sharded channels of each node, by its address.
type channelCounts map[string]int

// countChannels counts the channels of all nodes.
func countChannels(nodes *redis.ClusterClient) (channelCounts, error) {
	counts := make(channelCounts)
	var mu sync.Mutex
	err := nodes.ForEachMaster(context.Background(), func(ctx context.Context, node *redis.Client) error {
		names, err := node.PubSubShardChannels(ctx, "*").Result()
		mu.Lock()
		defer mu.Unlock()
		counts[node.Options().Addr] = len(names)
		return err
	})
	return counts, err
}

func (c channelCounts) sum() (n int) {
	for _, some := range c {
		n += some
	}
	return n
}

func (c channelCounts) note(more map[string]float64, slots int) {
	most := 0
	for _, n := range c {
		most = max(most, n)
	}
	more[Channels], more[ChannelsPerNode] = float64(c.sum()), float64(most)
	more[ChannelsPerSlot] = float64(c.sum()) / float64(slots)
}

// awaitChannels waits until there are at least n channels, which are one for each slot, and until their number stays the same.
func awaitChannels(nodes *redis.ClusterClient, n int) (channelCounts, error) {
	last := 0
	for end := time.Now().Add(waitedLimit); ; {
		counts, err := countChannels(nodes)
		sum := counts.sum()
		switch {
		case err != nil:
			return nil, err
		case sum >= n && sum == last:
			return counts, nil
		case time.Now().After(end):
			return nil, fmt.Errorf("%d channels for %d slots after %v", sum, n, waitedLimit)
		}
		last = sum
		if err := library.Pause(context.Background(), channelPause); err != nil {
			return nil, err
		}
	}
}

const channelPause = 100 * time.Millisecond

// resubscribe makes one node end the connections of its subscribers, and counts how it gets its subscriptions back.
func resubscribe(nodes *redis.ClusterClient, slots int, more map[string]float64) error {
	ctx := context.Background()
	before, err := countChannels(nodes)
	if err != nil {
		return err
	}
	addr := slices.Sorted(maps.Keys(before))[0] // any node
	start, err := subscribesOf(ctx, addr)
	if err != nil {
		return err
	}
	begun := time.Now()
	node := redis.NewClient(&redis.Options{Addr: addr})
	err = node.ClientKillByFilter(ctx, "TYPE", "pubsub").Err()
	if err := errors.Join(err, node.Close()); err != nil {
		return err
	}
	if _, err := awaitChannels(nodes, slots); err != nil {
		return err
	}
	more[ResubscribeTime] = millis(time.Since(begun) - channelPause)
	end, err := subscribesOf(ctx, addr)
	more[SubscribesPer] = float64(end-start) / float64(before[addr])
	return err
}

// subscribesOf returns how often the server at addr has run SSUBSCRIBE.
func subscribesOf(ctx context.Context, addr string) (int64, error) {
	s, err := server.Use(ctx, addr)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	stats, err := s.Stats(ctx)
	return stats.Calls["ssubscribe"], err
}
