package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/examples/recipes/streams"
	"github.com/lockmw/go/lockmw"
)

// itemOf returns the item of a message.
func itemOf(m redis.XMessage) (string, error) {
	item, ok := m.Values["item"].(string)
	if !ok {
		return "", fmt.Errorf("%w: the message has no item", lockmw.ErrInvalidKey)
	}
	return item, nil
}

// consume is the stream's side: a message ships an item. It handles messages until ctx ends.
func (s *scene) consume(ctx context.Context, locks lockmw.Locker) error {
	byItem := func(_ context.Context, m redis.XMessage) (string, error) {
		item, err := itemOf(m)
		return lockmw.Key("item", item), err
	}
	ship := func(ctx context.Context, m redis.XMessage) error {
		item, err := itemOf(m)
		if err == nil {
			s.work(ctx, "message", "ships", item)
		}
		return err
	}
	consumer := streams.Consumer{
		Redis: s.redis.Client, Stream: "shipments", Group: "shipping", Name: "onekey", Idle: 30 * time.Second, Grace: 10 * time.Second,
		Context: func(ctx context.Context, m redis.XMessage) context.Context {
			parent, _ := m.Values["traceparent"].(string)
			return w3c.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
		},
	}
	return consumer.Run(ctx, locks, byItem, ship, nil)
}

// openStream starts a consumer. The function that it returns adds a message to the stream.
func (s *scene) openStream(locks lockmw.Locker) (ship func(ctx context.Context, item string) error) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.consume(ctx, locks) // returns the cause of ctx
	}()
	s.atEnd(func() error { stop(); <-done; return nil })
	return func(ctx context.Context, item string) error {
		ctx, span := s.tracer.Tracer("onekey").Start(ctx, "publish shipment", trace.WithSpanKind(trace.SpanKindProducer))
		defer span.End()
		carrier := propagation.MapCarrier{}
		w3c.Inject(ctx, carrier)
		return s.redis.Client.XAdd(ctx, &redis.XAddArgs{
			Stream: "shipments", Values: map[string]any{"item": item, "traceparent": carrier["traceparent"]},
		}).Err()
	}
}
