package docs

import (
	"context"
	"errors"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/bridge"
	"github.com/lockmw/go/lockmw"
)

// The block of docs/migrating.md.

func firstDeployment(ctx context.Context, rdb *redis.Client, sell func(context.Context) error) error {
	client, err := lockmw.New(rdb)
	if err != nil {
		return err
	}
	locks := bridge.Redsync(client, rdb) // rdb is the client that redsync has

	err = lockmw.Do(ctx, locks, "item:7", func(ctx context.Context) error {
		return sell(ctx)
	})
	if old, ok := errors.AsType[*bridge.OldKeyError](err); ok && errors.Is(err, lockmw.ErrBusy) {
		log.Printf("busy: %v", old) // old code has the lock
	}
	return err
}

var _ = firstDeployment
