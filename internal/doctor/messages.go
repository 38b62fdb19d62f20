package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lockmw/go/internal/transport"
)

// messages is the number of messages that the check sends.
const messages = 20

// checkMessages checks that messages arrive. A message hands a lock over immediately; without messages waiting calls must poll.
func (e *examination) checkMessages(ctx context.Context) {
	tag, err := e.tagAt(ctx, e.firstMaster())
	if err != nil {
		e.note(Unknown, Remedy(err), "%v", err)
		return
	}
	channel := e.options.Prefix + ":inbox:" + tag
	took, err := e.sendMessages(ctx, channel, e.topology.Cluster)
	if e.topology.Cluster && transport.IsUnknownCommand(err) { // before Redis 7.0: locks use plain channels, too
		took, err = e.sendMessages(ctx, channel, false)
	}
	switch {
	case denied(err) != "":
		e.note(Warning, "ACL SETUSER … +subscribe '&"+e.options.Prefix+":inbox:*'; in a Cluster also +ssubscribe +sunsubscribe",
			"the user may not subscribe, so waiting calls must poll, which is slow: %v", err)
	case refusal(err) != "":
		e.note(Unknown, refusal(err), "the server refuses messages: %v", err)
	case err != nil:
		e.note(Warning, "check for a proxy that does not forward messages, and for firewalls",
			"messages do not arrive, so waiting calls must poll, which is slow: %v", err)
	case e.mute != nil:
		e.note(verdictOn(*e.mute), e.mute.Remedy, "%s", saw(*e.mute))
	default:
		e.note(OK, "", "%d of %d arrived, median %v", messages, messages, round(median(took)))
	}
}

func (e *examination) firstMaster() *server { return e.masters()[0] }

// sendMessages sends messages to a channel and returns the time that each took to arrive.
func (e *examination) sendMessages(ctx context.Context, channel string, sharded bool) (took []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	subscribe, publish := e.rdb.Subscribe, e.rdb.Publish
	if sharded {
		subscribe, publish = e.rdb.SSubscribe, e.rdb.SPublish
	}
	sub := subscribe(ctx, channel)
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		return nil, err
	}
	for i := range messages {
		text, begun := strconv.Itoa(i), time.Now()
		if err := publish(ctx, channel, text).Err(); err != nil {
			return nil, err
		}
		m, err := sub.ReceiveMessage(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no message within %v", e.patience)
		}
		if err != nil {
			return nil, err
		}
		if m.Payload != text {
			return nil, fmt.Errorf("received message %q instead of %q", m.Payload, text)
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

// round rounds a duration to a few digits.
func round(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Millisecond:
		return d.Round(time.Millisecond)
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}
