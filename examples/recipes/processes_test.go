package recipes_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockmw/go/consume"
	"github.com/lockmw/go/examples/recipes/kafka"
	"github.com/lockmw/go/examples/recipes/streams"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A broker has a child that consumes it, and can start another consumer in this process.
type broker struct {
	spec childSpec
	send func(payload string)
	join func(ctx context.Context, locks lockmw.Locker, handle func(payload []byte)) error
}

func brokers(t *testing.T) map[string]func(t *testing.T) broker {
	return map[string]func(t *testing.T) broker{
		"NATS": func(t *testing.T) broker {
			url := startNATS(t)
			_, js := connectNATS(t, url)
			return broker{childSpec{NATS: url}, func(p string) { publish(t, js, p) },
				func(ctx context.Context, locks lockmw.Locker, handle func([]byte)) error {
					return joinNATS(ctx, url, locks, func(_ context.Context, m jetstream.Msg) error { handle(m.Data()); return nil })
				}}
		},
		"watermill": func(t *testing.T) broker {
			url := startNATS(t)
			_, js := connectNATS(t, url)
			return broker{childSpec{NATS: url, Watermill: true}, func(p string) { publish(t, js, p) },
				func(ctx context.Context, locks lockmw.Locker, handle func([]byte)) error {
					return joinWatermill(ctx, url, locks, func(_ context.Context, payload []byte) error { handle(payload); return nil })
				}}
		},
		"Kafka": func(t *testing.T) broker {
			addrs, producer := startKafka(t)
			return broker{childSpec{Kafka: addrs}, func(p string) { produce(t, producer, p) },
				func(ctx context.Context, locks lockmw.Locker, handle func([]byte)) error {
					return joinKafka(ctx, addrs, locks, func(_ context.Context, r *kgo.Record) error { handle(r.Value); return nil })
				}}
		},
	}
}

// A process is killed or stopped in the middle of a message, with a second one of the same key behind it.
func TestMessagesOfADeadOrPausedProcessAreHandledByAnother(t *testing.T) {
	t.Parallel()
	for name, newBroker := range brokers(t) {
		for _, paused := range []bool{false, true} {
			t.Run(map[bool]string{false: name + "/killed", true: name + "/paused"}[paused], func(t *testing.T) {
				t.Parallel()
				outlive(t, newBroker(t), paused)
			})
		}
	}
}

func outlive(t *testing.T, b broker, paused bool) {
	s, trip := redistest.Redis(t), newTrip()
	b.spec.Addr = s.Addr()
	child := redistest.StartChild(t, b.spec)
	first := payload("7", 1)
	b.send(first)
	if r := report(t, child.Reports()); r.Began != first {
		t.Fatalf("%+v, want that %s began", r, first)
	}
	b.send(payload("7", 2))
	if paused {
		child.Pause(t)
	} else {
		child.Kill()
	}
	locks := usertest.Client(t, s)
	start(t, func(ctx context.Context) error {
		return b.join(ctx, locks, func(payload []byte) { trip.handle(t, payload) })
	})
	usertest.Eventually(t, "both are handled", time.Minute, func() bool { return trip.total() == 2 })
	if paused {
		child.Resume(t)
		if r := report(t, child.Reports()); r.Ended != first {
			t.Errorf("%+v, want that %s ended", r, first)
		}
	}
	b.send(payload("8", 3))
	usertest.Eventually(t, "a third one goes to either", time.Minute, func() bool {
		select {
		case text, ok := <-child.Reports():
			if ok {
				t.Logf("the child: %s", text)
				child.Kill() // it would never end it
			}
		default:
		}
		return slices.Equal(trip.of("8"), []int{3})
	})
	list := trip.of("7")
	if slices.Sort(list); !slices.Equal(list, []int{1, 2}) {
		t.Errorf("handled %v", list)
	}
}

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
