package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockmw/go/examples/recipes/watermilllock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// routeOrders is what a service runs in each of its processes.
func routeOrders(router *message.Router, in message.Subscriber, out message.Publisher, topic string, locks lockmw.Locker,
	ship message.NoPublishHandlerFunc,
) error {
	poison, err := middleware.PoisonQueueWithFilter(out, "dead", watermilllock.HasNoKey)
	if err != nil {
		return err
	}
	byOrder := func(_ context.Context, m *message.Message) (string, error) { return orderOf(m.Payload) }
	router.AddMiddleware(
		poison,
		middleware.Retry{MaxRetries: 5, InitialInterval: 100 * time.Millisecond}.Middleware,
		watermilllock.Ordered(locks, byOrder),
	)
	router.AddConsumerHandler("ship", topic, in, ship)
	return nil
}

// startRouter runs a router until the test ends.
func startRouter(t *testing.T, pubsub *gochannel.GoChannel, topic string, locks lockmw.Locker, trip *trip) {
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	err = routeOrders(router, pubsub, pubsub, topic, locks, func(m *message.Message) error {
		trip.handle(t, m.Payload)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- router.Run(context.Background()) }()
	t.Cleanup(func() {
		if err := router.Close(); err != nil {
			t.Error(err)
		}
		if err := usertest.Receive(t, "the router ends", done); err != nil {
			t.Error(err)
		}
	})
	usertest.Receive(t, "the router runs", router.Running())
}

func newGoChannel(t *testing.T) *gochannel.GoChannel {
	pubsub := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: false}, watermill.NopLogger{})
	t.Cleanup(func() { _ = pubsub.Close() })
	return pubsub
}

func publishTo(t *testing.T, pubsub *gochannel.GoChannel, topic string, payloads ...string) {
	t.Helper()
	for _, p := range payloads {
		if err := pubsub.Publish(topic, message.NewMessage(watermill.NewUUID(), []byte(p))); err != nil {
			t.Fatal(err)
		}
	}
}

// Two services receive messages about the same orders from different topics.
func TestRoutersOfWatermillExcludeEachOtherByKey(t *testing.T) {
	t.Parallel()
	s, pubsub, trip := redistest.Redis(t), newGoChannel(t), newTrip()
	const n = 100
	for _, topic := range []string{"placed", "paid"} {
		startRouter(t, pubsub, topic, usertest.Client(t, s), trip)
	}
	for i := range n {
		publishTo(t, pubsub, "placed", payload(fmt.Sprint(i%3), i))
		publishTo(t, pubsub, "paid", payload(fmt.Sprint(i%3), i))
	}
	usertest.Eventually(t, "all are handled", time.Minute, func() bool { return trip.total() >= 2*n })
	if got := trip.total(); got != 2*n {
		t.Errorf("%d were handled", got)
	}
}

func TestMessagesOfWatermillThatCannotBeHandledArePoison(t *testing.T) {
	t.Parallel()
	s, pubsub, trip := redistest.Redis(t), newGoChannel(t), newTrip()
	dead, err := pubsub.Subscribe(t.Context(), "dead")
	if err != nil {
		t.Fatal(err)
	}
	startRouter(t, pubsub, "placed", usertest.Client(t, s), trip)
	for _, bad := range []string{"{", payload("", 1), payload(strings.Repeat("x", 2048), 2)} {
		publishTo(t, pubsub, "placed", bad)
		m := usertest.Receive(t, "a dead letter", dead)
		m.Ack()
		if string(m.Payload) != bad {
			t.Errorf("dead letter %s", m.Payload)
		}
	}
	publishTo(t, pubsub, "placed", payload("7", 3))
	usertest.Eventually(t, "the good one is handled", time.Minute, func() bool { return slices.Equal(trip.of("7"), []int{3}) })
}

// The database of the key function is down for a moment.
func TestAMessageOfWatermillWhoseKeyTookTooLongIsNoPoison(t *testing.T) {
	t.Parallel()
	for failed, want := range map[error]bool{
		errors.New("no such order"): true, lockmw.ErrInvalidKey: true, context.DeadlineExceeded: false, context.Canceled: false,
	} {
		key := func(context.Context, *message.Message) (string, error) {
			return "", fmt.Errorf("the query: %w", failed)
		}
		_, err := watermilllock.Ordered(lockmw.NewLocal(), key)(nil)(message.NewMessage("1", nil))
		if got := watermilllock.HasNoKey(err); got != want {
			t.Errorf("%v: %t, want %t", err, got, want)
		}
	}
}

func TestMessagesOfWatermillWaitForTheRedisOfTheLocks(t *testing.T) {
	t.Parallel()
	s, pubsub, trip := redistest.Redis(t), newGoChannel(t), newTrip()
	startRouter(t, pubsub, "placed", usertest.Client(t, s, lockmw.WithLogger(slog.New(slog.DiscardHandler))), trip)
	s.Kill()
	publishTo(t, pubsub, "placed", payload("7", 1))
	publishTo(t, pubsub, "placed", payload("7", 2))
	s.Restart(t)
	usertest.Eventually(t, "both are handled", time.Minute, func() bool { return trip.total() == 2 })
}

// A natsSubscriber delivers the messages of a JetStream consumer to watermill, one after the other. Like watermill's subscribers for
// brokers it refreshes a message until it is acknowledged.
type natsSubscriber struct{ pull jetstream.Consumer }

func (s natsSubscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for ctx.Err() == nil { // the router ends it
			if m, err := s.pull.Next(jetstream.FetchMaxWait(100 * time.Millisecond)); err == nil {
				s.deliver(ctx, m, out)
			}
		}
	}()
	return out, nil
}

func (s natsSubscriber) deliver(ctx context.Context, m jetstream.Msg, out chan<- *message.Message) {
	delivered := message.NewMessage(watermill.NewUUID(), m.Data())
	delivered.SetContext(ctx)
	select {
	case out <- delivered:
	case <-ctx.Done():
		return
	}
	refresh := time.NewTicker(ackWait / 3)
	defer refresh.Stop()
	for {
		select {
		case <-delivered.Acked():
			_ = m.Ack()
			return
		case <-delivered.Nacked():
			_ = m.Nak()
			return
		case <-refresh.C:
			_ = m.InProgress()
		case <-ctx.Done():
			return
		}
	}
}

func (natsSubscriber) Close() error { return nil }

// joinWatermill runs a router of watermill on NATS until ctx ends.
func joinWatermill(ctx context.Context, url string, locks lockmw.Locker, handle func(context.Context, []byte) error) error {
	conn, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	pull, err := js.CreateOrUpdateConsumer(ctx, "ORDERS", jetstream.ConsumerConfig{
		Durable: "shipping", AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
	})
	if err != nil {
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	dead := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	defer dead.Close()
	ship := func(m *message.Message) error { return handle(m.Context(), m.Payload) }
	if err := routeOrders(router, natsSubscriber{pull}, dead, "orders", locks, ship); err != nil {
		return err
	}
	if err := router.Run(ctx); err != nil {
		return err
	}
	return context.Cause(ctx)
}
