package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// messages is how many are sent to see how long they take.
const messages = 20

// checkMessages looks whether messages arrive: with them a lock is handed over at once, else by polls.
func (e *examination) checkMessages(ctx context.Context) {
	const check = "messages"
	tag, err := e.tagAt(ctx, e.firstMaster())
	if err != nil {
		e.note(check, Unknown, Remedy(err), "%v", err)
		return
	}
	channel := e.options.Prefix + ":inbox:" + tag
	took, err := e.sendMessages(ctx, channel, e.topology.Cluster)
	switch {
	case denied(err) != "":
		e.note(check, Warning, "ACL SETUSER … +subscribe '&"+e.options.Prefix+":inbox:*'; in a Cluster +ssubscribe +sunsubscribe, too",
			"the user may not subscribe: waiting calls have to poll, which is slow: %v", err)
	case refusal(err) != "":
		e.note(check, Unknown, refusal(err), "the server takes no messages: %v", err)
	case err != nil:
		e.note(check, Warning, "look for a proxy that does not forward messages, and for firewalls",
			"messages do not arrive: waiting calls have to poll, which is slow: %v", err)
	default:
		e.note(check, OK, "", "%d of %d arrived, half of them within %v", messages, messages, round(median(took)))
	}
}

func (e *examination) firstMaster() *server { return e.masters()[0] }

// sendMessages returns how long messages to a channel took to arrive.
func (e *examination) sendMessages(ctx context.Context, channel string, sharded bool) (took []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	var sub *redis.PubSub
	if sharded {
		sub = e.rdb.SSubscribe(ctx, channel)
	} else {
		sub = e.rdb.Subscribe(ctx, channel)
	}
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		return nil, err
	}
	for i := range messages {
		text, begun := strconv.Itoa(i), time.Now()
		if sharded {
			err = e.rdb.SPublish(ctx, channel, text).Err()
		} else {
			err = e.rdb.Publish(ctx, channel, text).Err()
		}
		if err != nil {
			return nil, err
		}
		m, err := sub.ReceiveMessage(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("none within %v", e.patience)
		}
		if err != nil {
			return nil, err
		}
		if m.Payload != text {
			return nil, fmt.Errorf("message %q came instead of %q", m.Payload, text)
		}
		took = append(took, time.Since(begun))
	}
	return took, nil
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// round makes a time short to read.
func round(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Millisecond:
		return d.Round(time.Millisecond)
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}
