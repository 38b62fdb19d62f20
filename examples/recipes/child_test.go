package recipes_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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

// A childSpec is a process that consumes a stream. Its handlers report each message that they begin, and never end it.
type childSpec struct{ Addr string }

type childReport struct{ Began, Ended string }

func childLife(spec childSpec, orders *json.Decoder, reports *json.Encoder) error {
	rdb := redis.NewClient(&redis.Options{Addr: spec.Addr})
	defer rdb.Close()
	locks, err := lockmw.New(rdb, lockmw.WithPrefix("shop"))
	if err != nil {
		return err
	}
	defer locks.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_ = orders.Decode(new(struct{}))
	}()
	err = membership(rdb, "child").Run(ctx, locks, byOrder, func(ctx context.Context, m redis.XMessage) error {
		if err := reports.Encode(childReport{Began: m.ID}); err != nil {
			return err
		}
		<-ctx.Done()
		return errors.Join(context.Cause(ctx), reports.Encode(childReport{Ended: m.ID}))
	}, nil, lockmw.WithLease(idle))
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
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
