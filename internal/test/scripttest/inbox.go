package scripttest

import (
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/script"
)

// Hear subscribes to all inboxes. Each call of the returned function returns the messages since the last call. Each has the id
// of the inbox, a colon, and the message, without its proof if that is valid.
func (d *Driver) Hear() (heard func() []string) {
	d.Helper()
	whole := d.HearWhole()
	return func() []string {
		all := whole()
		for i, text := range all {
			process, message, _ := strings.Cut(text, ": ")
			if m, ok := script.ParseMessage(message); ok && m.Kind == script.Granted && m.IsProven(Secret(process)) {
				all[i] = text[:strings.LastIndexByte(text, ' ')]
			}
		}
		return all
	}
}

// HearWhole is Hear with proofs.
func (d *Driver) HearWhole() (heard func() []string) {
	d.Helper()
	ctx := d.Context()
	pubsub := d.Redis.PSubscribe(ctx, d.Inbox("*"))
	d.Cleanup(func() { _ = pubsub.Close() })
	receive := func() any {
		m, err := pubsub.ReceiveTimeout(ctx, Soon)
		if err != nil {
			d.Fatal(err)
		}
		return m
	}
	receive() // subscribed
	return func() (all []string) {
		end := d.Inbox("end")
		d.Redis.Publish(ctx, end, "")
		for {
			m, ok := receive().(*redis.Message)
			switch {
			case ok && m.Channel == end:
				return all
			case ok:
				all = append(all, strings.TrimPrefix(m.Channel, d.Inbox(""))+": "+m.Payload)
			}
		}
	}
}

// Listen makes a client listen to the inboxes of these ids.
func (d *Driver) Listen(all ...string) {
	d.Helper()
	channels := make([]string, len(all))
	for i, id := range all {
		channels[i] = d.Inbox(id)
	}
	pubsub := d.Redis.Subscribe(d.Context(), channels...)
	d.Cleanup(func() { _ = pubsub.Close() })
	for range channels {
		if m, err := pubsub.ReceiveTimeout(d.Context(), Soon); err != nil {
			d.Fatal(err)
		} else if _, ok := m.(*redis.Subscription); !ok {
			d.Fatalf("%v", m)
		}
	}
}
