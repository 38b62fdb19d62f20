package consume

import (
	"context"
	"errors"

	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// ErrClosed is the error of Submit after Close. The message was not accepted.
var ErrClosed = errors.New("consume: the partition is closed")

// ErrPanic is wrapped in the error of an attempt whose handler, key function or GiveUp panicked. The text of that error has the panic's
// value and stack.
var ErrPanic = errors.New("consume: a function of the queue panicked")

// A Handler handles a message. Its context carries the hold of the message's lock (lockmw.FromContext, lockmw.Held) and the values of
// the context of Submit. The context ends when the lock is lost, or when the context of Close ends. A Handler must not call Close.
type Handler[M any] func(ctx context.Context, m M) error

// A GiveUp decides about a message whose attempt has failed with err. The first attempt has number 1. If GiveUp returns nil the message
// counts as done: store it for later analysis first, in a dead-letter queue or a table. If it returns an error, the message is tried
// again after a pause (WithRetry), and the other messages of its key wait.
//
//	func deadLetter(ctx context.Context, m Message, attempt int, err error) error {
//		if attempt < 5 && !errors.Is(err, lockmw.ErrInvalidKey) {
//			return err // try again
//		}
//		return store(ctx, m, err)
//	}
//
// A message that has no valid key fails: err is the error of the KeyFunc, or wraps lockmw.ErrInvalidKey. So does a message whose lock was
// lost while it was handled (lockmw.ErrLost), and one whose handler or KeyFunc panicked (ErrPanic). A message that did not get its lock
// has not failed, and GiveUp is not asked. It waits, whether the lock is busy or Redis is unreachable. If GiveUp panics, the message is
// tried again.
//
// GiveUp runs without the lock. It may run for several messages at a time.
type GiveUp[M any] func(ctx context.Context, m M, attempt int, err error) error

// A Queue handles messages under the locks of their keys. It is safe for concurrent use.
type Queue[M any] struct {
	config
	locks  lockmw.Locker
	key    lockmw.KeyFunc[M]
	handle Handler[M]
	giveUp GiveUp[M]
	lines  loglimit.Limit // of lines about attempts that are repeated
}

// New returns a Queue without partitions. Messages for which key returns lockmw.ErrNoLock run without a lock, and in no order. If giveUp
// is nil every failure is tried again, forever: one message without a key then ends all progress of an OpenInOrder partition.
//
// key is called once for each message, by Submit, and its error is final for that message. So take the key from the message, or look
// it up before Submit.
//
// A message waits for its lock until its Partition is closed, in line with all other callers of the key. lockmw.WithWait makes it leave
// the line after that time and return after a pause. Pass fairlock locks for strict order among processes.
//
// New panics if locks, key or handle is nil, or if an option is invalid.
func New[M any](locks lockmw.Locker, key lockmw.KeyFunc[M], handle Handler[M], giveUp GiveUp[M], opts ...Option) *Queue[M] {
	option.NotNil(locks, "consume: New: the Locker is nil")
	option.NotNil(key, "consume: New: the key function is nil")
	option.NotNil(handle, "consume: New: the handler is nil")
	if giveUp == nil {
		giveUp = func(_ context.Context, _ M, _ int, err error) error { return err }
	}
	return &Queue[M]{config: newConfig(locks, opts), locks: locks, key: key, handle: handle, giveUp: giveUp}
}

// Open starts a Partition for a broker that acknowledges each message by itself. It calls done for each message as soon as the message is
// done, and before it handles the next message of the same key. Calls for different keys may overlap.
//
// Every Partition must be closed.
func (q *Queue[M]) Open(done func(M)) *Partition[M] { return q.open(done, false) }

// OpenInOrder starts a Partition for a broker that commits a position, such as Kafka. It calls done for each message when that message
// and all earlier ones are done, one call at a time, in the order of Submit. So done may always commit the position of its message. It
// should return soon: other messages of the Partition wait for it.
//
// A message that fails or waits for its lock holds back the commits of all later ones. They count for WithLimit.
func (q *Queue[M]) OpenInOrder(done func(M)) *Partition[M] { return q.open(done, true) }
