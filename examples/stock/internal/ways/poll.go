package ways

import (
	"context"
	"crypto/rand"
	"errors"
	random "math/rand/v2"
	"time"

	"github.com/lockmw/go/examples/internal/clock"
)

// A simpleLock is a hand-written lock on an item. Its owner is a random value of each call.
type simpleLock struct {
	acquire func(ctx context.Context, c *Call, owner string) (bool, error) // tries once
	release func(ctx context.Context, c *Call, owner string) error
	keep    func(ctx context.Context, c *Call, owner string) (stop func()) // renews it; may be nil
}

// open sells under the lock.
func (l simpleLock) open(e *Env) (Buy, error) {
	return func(ctx context.Context, c *Call) (err error) {
		owner := rand.Text()
		if err := l.poll(ctx, c, owner); err != nil {
			return err
		}
		stop := func() {}
		if l.keep != nil {
			stop = l.keep(ctx, c, owner)
		}
		defer func() {
			stop()
			// The release must happen even if the client has disconnected.
			err = errors.Join(err, l.release(context.WithoutCancel(ctx), c, owner))
		}()
		if err := c.at(ctx, Acquired); err != nil {
			return err
		}
		if c.Nested {
			if err := l.poll(ctx, c, owner); err != nil {
				return err
			}
			if err := l.release(ctx, c, owner); err != nil {
				return err
			}
		}
		return e.buy(ctx, c)
	}, nil
}

// poll retries until the call gets the lock or its patience ends.
func (l simpleLock) poll(ctx context.Context, c *Call, owner string) error {
	end := time.Now().Add(c.Patience)
	for {
		got, err := l.acquire(ctx, c, owner)
		if err != nil || got {
			return err
		}
		if !time.Now().Before(end) {
			return ErrBusy
		}
		c.retried()
		if err := c.at(ctx, Busy); err != nil {
			return err
		}
		if err := clock.Sleep(ctx, time.Millisecond+random.N(4*time.Millisecond)); err != nil {
			return err
		}
	}
}
