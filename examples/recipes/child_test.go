package recipes_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockmw/go/consume"
	"github.com/lockmw/go/examples/recipes/kafka"
	"github.com/lockmw/go/examples/recipes/streams"
	"github.com/lockmw/go/lockmw"
)

// idle is after what time the members of these tests take messages over.
const idle = time.Second

// byOrder makes the key of a message that has a field order.
func byOrder(_ context.Context, m redis.XMessage) (string, error) {
	order, ok := m.Values["order"].(string)
	if !ok {
		return "", errors.New("the message has no order")
	}
	return lockmw.Key("order", order), nil
}

func membership(rdb redis.UniversalClient, name string) streams.Consumer {
	return streams.Consumer{Redis: rdb, Stream: "orders", Group: "shipping", Name: name, Idle: idle, Grace: 10 * time.Second}
}

// A childSpec is a process that consumes a stream of the Redis at Addr, or else of NATS or Kafka. Its handlers report each message that
// they begin, and never end it.
type childSpec struct {
	Addr, NATS string
	Watermill  bool // by a router of watermill
	Kafka      []string
}

// A childReport has the ID of a message of a stream, or the payload of another one.
type childReport struct{ Began, Ended string }

func childLife(spec childSpec, orders *json.Decoder, reports *json.Encoder) error {
	rdb := redis.NewClient(&redis.Options{Addr: spec.Addr})
	defer rdb.Close()
	locks, err := lockmw.New(rdb, lockmw.WithLease(idle))
	if err != nil {
		return err
	}
	defer locks.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_ = orders.Decode(new(struct{}))
	}()
	handle := func(ctx context.Context, id string) error {
		if err := reports.Encode(childReport{Began: id}); err != nil {
			return err
		}
		<-ctx.Done()
		return errors.Join(context.Cause(ctx), reports.Encode(childReport{Ended: id}))
	}
	err = spec.consume(ctx, rdb, locks, handle)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (spec childSpec) consume(ctx context.Context, rdb *redis.Client, locks *lockmw.Client, handle func(context.Context, string) error) error {
	switch {
	case spec.Watermill:
		return joinWatermill(ctx, spec.NATS, locks, func(ctx context.Context, payload []byte) error { return handle(ctx, string(payload)) })
	case spec.NATS != "":
		return joinNATS(ctx, spec.NATS, locks, func(ctx context.Context, m jetstream.Msg) error { return handle(ctx, string(m.Data())) })
	case spec.Kafka != nil:
		return joinKafka(ctx, spec.Kafka, locks, func(ctx context.Context, r *kgo.Record) error { return handle(ctx, string(r.Value)) })
	}
	return membership(rdb, "child").Run(ctx, locks, byOrder, func(ctx context.Context, m redis.XMessage) error { return handle(ctx, m.ID) },
		nil, lockmw.WithLease(idle))
}

func joinNATS(ctx context.Context, url string, locks lockmw.Locker, handle func(context.Context, jetstream.Msg) error) error {
	conn, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	return consumeNATS(ctx, conn, js, locks, handle)
}

// joinKafka joins a group that notices dead members soon.
func joinKafka(ctx context.Context, brokers []string, locks lockmw.Locker, handle consume.Handler[*kgo.Record]) error {
	q := consume.New(locks, func(_ context.Context, r *kgo.Record) (string, error) { return orderOf(r.Value) }, handle, nil, lockmw.WithLease(idle))
	return kafka.Run(ctx, q, time.Second, kgo.SeedBrokers(brokers...), kgo.ConsumerGroup("shipping"), kgo.ConsumeTopics("orders"),
		kgo.SessionTimeout(2*time.Second), kgo.HeartbeatInterval(200*time.Millisecond))
}

func report(t *testing.T, from <-chan json.RawMessage) (r childReport) {
	t.Helper()
	select {
	case text := <-from:
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the child reports nothing")
	}
	return r
}
