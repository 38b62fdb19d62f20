package recipes_test

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockmw/go/lockmw"
)

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
