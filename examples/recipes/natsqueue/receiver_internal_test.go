package natsqueue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockmw/go/lockmw"
)

// A letter is a message without a server. It counts what is sent about it.
type letter struct {
	jetstream.Msg
	acks, naks *int
	away       int  // so many acknowledgements fail
	ended      bool // by its handler
}

func (letter) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{Sequence: jetstream.SequencePair{Stream: 7}}, nil
}

func (l letter) DoubleAck(context.Context) error {
	*l.acks++
	switch {
	case l.ended:
		return jetstream.ErrMsgAlreadyAckd
	case *l.acks <= l.away:
		return nats.ErrTimeout
	}
	return nil
}

func (l letter) Nak() error { *l.naks++; return nil }

// letters is a batch of messages.
type letters []jetstream.Msg

func (letters) Error() error { return nil }

func (l letters) Messages() <-chan jetstream.Msg {
	c := make(chan jetstream.Msg, len(l))
	defer close(c)
	for _, m := range l {
		c <- m
	}
	return c
}

func newReceiver() *receiver {
	return &receiver{Consumer: Consumer{AckWait: time.Minute}, received: make(map[uint64]*delivery)}
}

// ago is when a message was received that may be in another process's hand by now.
func ago() time.Time { return time.Now().Add(-time.Hour) }

func TestAHandledMessageIsAcknowledgedEvenIfItsTimeHasPassed(t *testing.T) {
	r, m := newReceiver(), letter{acks: new(int)}
	r.begin(ago(), letters{m}, nil)
	if r.acknowledge(t.Context(), m); *m.acks != 1 {
		t.Errorf("%d acknowledgements", *m.acks)
	}
}

func TestAMessageThatWasLeftToAnotherProcessIsNotAcknowledged(t *testing.T) {
	r, m := newReceiver(), letter{acks: new(int)}
	r.begin(ago(), letters{m}, nil)
	handle := r.owned(func(context.Context, jetstream.Msg) error { t.Error("it is handled"); return nil })
	if err := handle(t.Context(), m); err != nil {
		t.Error(err)
	}
	if r.acknowledge(t.Context(), m); *m.acks != 0 {
		t.Errorf("%d acknowledgements", *m.acks)
	}
	if list := r.begin(time.Now(), letters{m}, nil); len(list) != 1 {
		t.Error("it cannot come back")
	}
}

// Its time has passed and its lock is lost, as after a pause.
func TestAFailedMessageIsLeftToAProcessThatMayHaveIt(t *testing.T) {
	r, m := newReceiver(), letter{acks: new(int)}
	r.begin(ago(), letters{m}, nil)
	giveUp := r.givenUp(func(context.Context, jetstream.Msg, int, error) error { t.Error("it is given up"); return nil })
	if err := giveUp(t.Context(), m, 1, lockmw.ErrLost); err != nil {
		t.Error(err)
	}
	if r.acknowledge(t.Context(), m); *m.acks != 0 {
		t.Errorf("%d acknowledgements", *m.acks)
	}
}

func TestAFailedMessageOfThisProcessIsForGiveUpToDecide(t *testing.T) {
	r, m := newReceiver(), letter{}
	r.begin(time.Now(), letters{m}, nil)
	asked := false
	giveUp := r.givenUp(func(_ context.Context, _ jetstream.Msg, attempt int, _ error) error { asked = attempt == 7; return nil })
	if err := giveUp(t.Context(), m, 7, lockmw.ErrLost); err != nil || !asked {
		t.Error(err, asked)
	}
	if err := r.givenUp(nil)(t.Context(), m, 1, lockmw.ErrLost); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("%v, want that it is tried again", err)
	}
}

// It comes back before the attempt that left it has ended, and that attempt fails.
func TestAMessageThatWasLeftAndComesBackIsAcknowledged(t *testing.T) {
	r, m := newReceiver(), letter{acks: new(int)}
	r.begin(ago(), letters{m}, nil)
	if r.owns(m) {
		t.Fatal("its time has not passed")
	}
	r.begin(time.Now(), letters{m}, nil)
	if err := r.owned(func(context.Context, jetstream.Msg) error { return nil })(t.Context(), m); err != nil {
		t.Error(err)
	}
	if r.acknowledge(t.Context(), m); *m.acks != 1 {
		t.Errorf("%d acknowledgements", *m.acks)
	}
}

func TestARefreshThatTheServerHeardTooLateDoesNotCount(t *testing.T) {
	r, m := newReceiver(), letter{}
	r.begin(ago(), letters{m}, nil)
	if r.refreshed([]jetstream.Msg{m}, time.Now()); r.owns(m) {
		t.Error("the process owns the message again")
	}
}

func TestAMessageThatComesBackRunsOnceAndIsOwnedAgain(t *testing.T) {
	r, first, second := newReceiver(), letter{naks: new(int)}, letter{naks: new(int)}
	r.begin(ago(), letters{first}, nil)
	if list := r.begin(time.Now(), letters{second}, nil); len(list) != 0 || !r.owns(first) {
		t.Errorf("it runs %d more times, owned: %t", len(list), r.owns(first))
	}
	if list := r.inHand(time.Now()); len(list) != 1 || list[0] != second {
		t.Errorf("%v is refreshed, want the last delivery", list)
	}
	r.begin(ago(), letters{second}, nil)
	if !r.owns(first) {
		t.Error("an earlier time replaced a later one")
	}
	if r.giveBack(first); *first.naks != 0 || *second.naks != 1 {
		t.Errorf("%d and %d are handed back, want the last delivery", *first.naks, *second.naks)
	}
}

// The server is away for longer than AckWait.
func TestAHandledMessageIsAcknowledgedWhenTheServerIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, m := newReceiver(), letter{acks: new(int), away: 3}
		r.begin(ago(), letters{m}, nil)
		if r.acknowledge(t.Context(), m); *m.acks != 4 {
			t.Errorf("%d acknowledgements, want 3 that fail and one more", *m.acks)
		}
	})
}

func TestAMessageThatItsHandlerHasEndedIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, m := newReceiver(), letter{acks: new(int), ended: true}
		r.begin(time.Now(), letters{m}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if r.acknowledge(ctx, m); *m.acks != 1 {
			t.Errorf("%d acknowledgements", *m.acks)
		}
	})
}
