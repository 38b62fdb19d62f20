package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/lockmw/go/examples/orders/internal/crowd"
	"github.com/lockmw/go/examples/orders/internal/scene"
)

// contend lets two users order the same item at the same time, and ships their orders. The sequence is
// fixed: bob waits for ann, ann's task waits for bob, and bob's task waits for ann's task.
func (w *world) contend(ctx context.Context, stdout io.Writer) (code int, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("the scene took too long"))
	defer cancel()
	sc := scene.New()
	w.Items, w.Stock = 1, 2
	s, err := w.open(limited, "127.0.0.1:0", inScene(limited, sc))
	if err != nil {
		return 0, err
	}
	failure := s.play(limited, sc)
	cancel()
	if err := s.close(); err != nil { // waits for the last task
		return 0, err
	}
	switch {
	case ctx.Err() != nil:
		return 0, failure
	case failure != nil:
		_, err := fmt.Fprintf(stdout, "The scene failed: %v\n", failure)
		return exitBroken, err
	}
	return exitOK, scene.Report(stdout, w.OTLP, sc.Turns())
}

// inScene returns conditions in which the scene controls the bank and the carrier. Tasks end with
// ctx; requests end with their clients.
func inScene(ctx context.Context, sc *scene.Scene) conditions {
	return conditions{
		locked: true,
		bank:   sc.Stay,
		carrier: func(task context.Context) error {
			task, end := context.WithCancelCause(task)
			defer end(nil)
			defer context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })()
			return sc.Stay(task)
		},
		admit:      sc.AwaitHold,
		deliveries: 1,
		turn:       5 * time.Second,
		patience:   5 * time.Second,
		observer:   sc.Observer(),
	}
}

// play plays the scene and returns when both orders are shipped.
func (s *sale) play(ctx context.Context, sc *scene.Scene) error {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	err := sc.Play(ctx, func(ctx context.Context, user string) error {
		switch id, err := crowd.Order(ctx, client, s.url, crowd.Click{User: user, Item: crowd.ItemName(0)}); {
		case err != nil:
			return fmt.Errorf("%s's order: %w", user, err)
		case id == 0:
			return fmt.Errorf("%s's order was refused", user)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.drain(ctx); err != nil {
		return err
	}
	audit, err := s.books.Audit(ctx, 2)
	if err == nil && (audit.Shipped != 2 || audit.Twice > 0) {
		err = fmt.Errorf("%d of 2 orders shipped, %d of them twice", audit.Shipped, audit.Twice)
	}
	return err
}
