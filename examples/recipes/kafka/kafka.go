// Package kafka consumes topics of Kafka with a consumer group, one record at a time for each key.
package kafka

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockmw/go/consume"
)

// Run joins a group and handles its records until ctx ends. opts name the brokers, the group and the topics. It then waits for the
// handlers that run, commits and leaves the group. It returns the cause of ctx, or why no client can be made.
//
// grace is how long handlers have to end at a rebalance and at the end. It is well below kgo.RebalanceTimeout, by default 60 s.
func Run(ctx context.Context, q *consume.Queue[*kgo.Record], grace time.Duration, opts ...kgo.Opt) error {
	g := &group{queue: q, grace: grace, partitions: make(map[partition]*worker)}
	client, err := kgo.NewClient(append(slices.Clip(opts),
		kgo.AutoCommitMarks(),      // commit what was marked as done
		kgo.BlockRebalanceOnPoll(), // no partition is revoked while its records are passed on
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, revoked map[string][]int32) {
			g.close(ctx, revoked)
			if err := client.CommitMarkedOffsets(ctx); err != nil {
				slog.WarnContext(ctx, "committing at a rebalance", "error", err)
			}
		}),
		kgo.OnPartitionsLost(func(ctx context.Context, _ *kgo.Client, lost map[string][]int32) {
			ctx, cancel := context.WithCancel(ctx)
			cancel() // others may have the partitions: handlers end immediately
			g.close(ctx, lost)
		}))...)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 1000)
		fetches.EachError(func(topic string, partition int32, err error) {
			if ctx.Err() == nil {
				slog.WarnContext(ctx, "fetching", "topic", topic, "partition", partition, "error", err)
			}
		})
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			g.pass(ctx, client, partition{f.Topic, f.Partition}, f.Records)
		})
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance() // revokes all partitions
	return context.Cause(ctx)
}

type partition struct {
	topic  string
	number int32
}

func (p partition) list() map[string][]int32 { return map[string][]int32{p.topic: {p.number}} }

type group struct {
	queue      *consume.Queue[*kgo.Record]
	grace      time.Duration
	mu         sync.Mutex
	partitions map[partition]*worker
}

// A worker submits the records of a partition, one batch after the other.
type worker struct {
	*consume.Partition[*kgo.Record]
	batches sync.WaitGroup
}

// pass submits records in a goroutine. Until they are accepted the partition is paused: so the loop always polls, other partitions
// continue, and there is one batch at a time.
func (g *group) pass(ctx context.Context, client *kgo.Client, p partition, records []*kgo.Record) {
	if len(records) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.partitions[p]
	if w == nil {
		w = &worker{Partition: g.queue.OpenInOrder(func(r *kgo.Record) { client.MarkCommitRecords(r) })}
		g.partitions[p] = w
	}
	client.PauseFetchPartitions(p.list())
	w.batches.Go(func() {
		defer client.ResumeFetchPartitions(p.list()) // also if it is closed: it may be assigned again
		for _, r := range records {
			if w.Submit(context.WithoutCancel(ctx), r) != nil {
				return // the partition is closed
			}
		}
	})
}

// close ends partitions, all in the same time.
func (g *group) close(ctx context.Context, closed map[string][]int32) {
	ctx, cancel := context.WithTimeout(ctx, g.grace)
	defer cancel()
	var all sync.WaitGroup
	for topic, numbers := range closed {
		for _, number := range numbers {
			if w := g.remove(partition{topic, number}); w != nil {
				all.Go(func() {
					w.Close(ctx)
					w.batches.Wait()
				})
			}
		}
	}
	all.Wait()
}

func (g *group) remove(p partition) *worker {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.partitions[p]
	delete(g.partitions, p)
	return w
}
