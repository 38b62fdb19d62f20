package consume_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmw/go/consume"
	"github.com/lockmw/go/lockmw"
)

type Message struct {
	Offset         int
	Order, Content string
}

func (m Message) OrderID() string { return m.Order }

func Example() {
	ctx, locks := context.Background(), lockmw.NewLocal()
	handled := make(chan struct{}, 2)
	orders := consume.New(locks, lockmw.By("order", Message.OrderID),
		func(_ context.Context, m Message) error {
			fmt.Println(m.Content)
			return nil
		},
		func(ctx context.Context, m Message, attempt int, err error) error {
			if attempt < 5 && !errors.Is(err, lockmw.ErrInvalidKey) {
				return err // try again
			}
			return nil // after the message was stored in a dead-letter queue
		})

	partition := orders.OpenInOrder(func(m Message) {
		fmt.Println("commit", m.Offset)
		handled <- struct{}{}
	})
	for _, m := range []Message{{1, "7", "placed"}, {2, "7", "paid"}} {
		if err := partition.Submit(ctx, m); err != nil {
			panic(err)
		}
	}
	<-handled
	<-handled
	fmt.Println("not done:", partition.Close(ctx))
	// Output:
	// placed
	// commit 1
	// paid
	// commit 2
	// not done: []
}
