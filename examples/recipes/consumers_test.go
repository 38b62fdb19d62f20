package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/consume"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/lockmw"
)

// A Message is what some broker delivers.
type Message struct {
	Offset int
	Order  string
}

func (m Message) OrderID() string { return m.Order }

func orders(locks lockmw.Locker, ship func(context.Context, Message) error, store func(context.Context, Message, error) error) *consume.Queue[Message] {
	deadLetter := func(ctx context.Context, m Message, attempt int, err error) error {
		if attempt < 5 && !errors.Is(err, lockmw.ErrInvalidKey) {
			return err // try again
		}
		return store(ctx, m, err)
	}
	return consume.New(locks, lockmw.By("order", Message.OrderID), ship, deadLetter)
}

func receive(ctx context.Context, q *consume.Queue[Message], messages <-chan Message, acknowledge func(Message)) (notDone []Message) {
	partition := q.Open(acknowledge)
	for m := range messages {
		if partition.Submit(ctx, m) != nil {
			break // ctx has ended, and m was not accepted
		}
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return partition.Close(end)
}

func TestTheLoopOfThePageHandsBackWhatItDidNotBegin(t *testing.T) {
	defer race.OneProcessor()()
	synctest.Test(t, handsBack)
}

func handsBack(t *testing.T) {
	messages := make(chan Message, 3)
	for n, order := range []string{"7", "", "7"} {
		messages <- Message{n, order}
	}
	dead, began := make(chan Message, 1), make(chan struct{})
	q := orders(lockmw.NewLocal(), func(ctx context.Context, m Message) error {
		close(began)
		<-ctx.Done()
		return ctx.Err()
	}, func(_ context.Context, m Message, err error) error {
		<-began
		dead <- m
		close(messages) // the loop ends
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	acknowledged := make(chan Message, 3)
	notDone := make(chan []Message, 1)
	go func() { notDone <- receive(ctx, q, messages, func(m Message) { acknowledged <- m }) }()
	if m := <-acknowledged; m != <-dead || m.Offset != 1 {
		t.Errorf("%+v is acknowledged, want the one without an order", m)
	}
	if left := <-notDone; !slices.Equal(left, []Message{{0, "7"}, {2, "7"}}) {
		t.Error(fmt.Sprint("handed back: ", left))
	}
}
