package recipes_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockmw/go/consume"
	"github.com/lockmw/go/examples/recipes/kafka"
	"github.com/lockmw/go/examples/recipes/natsqueue"
	"github.com/lockmw/go/examples/recipes/watermilllock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// costs handles b.N messages with and without locks: what they cost in docs/consumers.md. prepare sends the messages, with these
// keys, and returns a consumer that calls done for each.
func costs(b *testing.B, prepare func(b *testing.B, keys int, locked bool) func(ctx context.Context, done func())) {
	for _, keys := range []int{1, 100} {
		for _, locked := range []bool{false, true} {
			b.Run(fmt.Sprintf("keys=%d/locked=%v", keys, locked), func(b *testing.B) {
				run := prepare(b, keys, locked)
				var messages, consumer sync.WaitGroup
				messages.Add(b.N)
				ctx, cancel := context.WithCancel(b.Context())
				b.ResetTimer()
				consumer.Go(func() { run(ctx, messages.Done) })
				messages.Wait()
				b.StopTimer()
				cancel()
				consumer.Wait()
			})
		}
	}
}

// keyIf returns key, or the absence of a lock.
func keyIf[M any](locked bool, key func(M) (string, error)) lockmw.KeyFunc[M] {
	return func(_ context.Context, m M) (string, error) {
		if !locked {
			return "", lockmw.ErrNoLock
		}
		return key(m)
	}
}

func BenchmarkStreams(b *testing.B) {
	costs(b, func(b *testing.B, keys int, locked bool) func(context.Context, func()) {
		s := redistest.Redis(b)
		rdb, locks := s.NewClient(b), usertest.Client(b, s)
		pipe := rdb.Pipeline()
		for i := range b.N {
			pipe.XAdd(b.Context(), &redis.XAddArgs{Stream: "orders", Values: order(i % keys)})
		}
		if _, err := pipe.Exec(b.Context()); err != nil {
			b.Fatal(err)
		}
		key := keyIf(locked, func(m redis.XMessage) (string, error) { return byOrder(b.Context(), m) })
		return func(ctx context.Context, done func()) {
			_ = membership(rdb, "member").Run(ctx, locks, key, func(context.Context, redis.XMessage) error { done(); return nil }, nil)
		}
	})
}

func BenchmarkNATS(b *testing.B) {
	costs(b, func(b *testing.B, keys int, locked bool) func(context.Context, func()) {
		locks := usertest.Client(b, redistest.Redis(b))
		conn, js := connectNATS(b, startNATS(b))
		for i := range b.N {
			publish(b, js, payload(fmt.Sprint(i%keys), i))
		}
		pull, err := js.CreateConsumer(b.Context(), "ORDERS", jetstream.ConsumerConfig{Durable: "shipping", AckPolicy: jetstream.AckExplicitPolicy})
		if err != nil {
			b.Fatal(err)
		}
		key := keyIf(locked, func(m jetstream.Msg) (string, error) { return orderOf(m.Data()) })
		return func(ctx context.Context, done func()) {
			_ = natsqueue.Consumer{Conn: conn, Pull: pull, AckWait: 30 * time.Second, Grace: time.Second}.Run(ctx, locks, key,
				func(context.Context, jetstream.Msg) error { done(); return nil }, nil)
		}
	})
}

func BenchmarkKafka(b *testing.B) {
	costs(b, func(b *testing.B, keys int, locked bool) func(context.Context, func()) {
		locks := usertest.Client(b, redistest.Redis(b))
		brokers, producer := startKafka(b)
		for i := range b.N {
			record := &kgo.Record{Topic: "orders", Partition: int32(i % 4), Value: []byte(payload(fmt.Sprint(i%keys), i))}
			producer.Produce(b.Context(), record, nil)
		}
		if err := producer.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
		key := keyIf(locked, func(r *kgo.Record) (string, error) { return orderOf(r.Value) })
		return func(ctx context.Context, done func()) {
			q := consume.New(locks, key, func(context.Context, *kgo.Record) error { done(); return nil }, nil)
			_ = kafka.Run(ctx, q, time.Second, kgo.SeedBrokers(brokers...), kgo.ConsumerGroup("shipping"), kgo.ConsumeTopics("orders"))
		}
	})
}

// watermill's router, without a broker: one message at a time.
func BenchmarkWatermill(b *testing.B) {
	costs(b, func(b *testing.B, keys int, locked bool) func(context.Context, func()) {
		locks := usertest.Client(b, redistest.Redis(b))
		key := keyIf(locked, func(m *message.Message) (string, error) { return orderOf(m.Payload) })
		return func(ctx context.Context, done func()) {
			handle := watermilllock.Ordered(locks, key)(func(*message.Message) ([]*message.Message, error) { done(); return nil, nil })
			for i := range b.N {
				if _, err := handle(message.NewMessage("id", []byte(payload(fmt.Sprint(i%keys), i)))); err != nil {
					b.Error(err)
				}
			}
		}
	})
}
