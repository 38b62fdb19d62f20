package recipes_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"

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
