package library

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

var pubsubLibrary = Library{Name: "pubsub", Open: openPubsub, Sends: []string{"publish"}, Baseline: true}

// pubsub is not a lock: it passes a turn between two processes by a bare PUBLISH, the minimum cost of a hand-over by Redis'
// publish/subscribe. Process 0 has the first turn.
type pubsub struct {
	rdb    *redis.Client
	index  int
	inbox  *redis.PubSub // made by the first Lock
	played atomic.Bool
}

func openPubsub(c Config) (Locker, error) {
	return &pubsub{rdb: redis.NewClient(&redis.Options{Addr: c.Addr}), index: c.Index}, nil
}

func channel(key string, index int) string { return key + ":" + strconv.Itoa(index) }

// Lock implements Locker. It is not safe for concurrent use.
func (l *pubsub) Lock(ctx context.Context, key string) (Hold, error) {
	if l.inbox == nil {
		l.inbox = l.rdb.Subscribe(ctx, channel(key, l.index))
		if _, err := l.inbox.Receive(ctx); err != nil { // the confirmation
			return nil, err
		}
	}
	if l.index == 0 && !l.played.Swap(true) {
		return &turn{l, channel(key, 1)}, nil
	}
	if _, err := l.inbox.ReceiveMessage(ctx); err != nil {
		return nil, err
	}
	return &turn{l, channel(key, 1-l.index)}, nil
}

// Close implements Locker.
func (l *pubsub) Close() error {
	var err error
	if l.inbox != nil {
		err = l.inbox.Close()
	}
	return errors.Join(err, l.rdb.Close())
}

type turn struct {
	l  *pubsub
	to string
}

// Unlock implements Hold. It retries for a while: before its first turn the other process may not have subscribed yet.
func (t *turn) Unlock() error {
	ctx := context.Background()
	const tries = 1000
	for range tries {
		n, err := t.l.rdb.Publish(ctx, t.to, "1").Result()
		if err != nil || n == 1 {
			return err
		}
		if err := Pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("no process listens")
}
