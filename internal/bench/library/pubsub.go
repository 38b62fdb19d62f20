package library

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	pubsubLibrary = Library{Name: "pubsub", Open: openPubsub, Sends: []string{"publish"}, Baseline: true}
	grantLibrary  = Library{Name: "pubsub-grant", Open: openGrant, Baseline: true}
)

// pubsub is not a lock: it passes a turn between two processes by a bare PUBLISH, the minimum cost of a hand-over by Redis'
// publish/subscribe. Process 0 has the first turn.
type pubsub struct {
	rdb    *redis.Client
	index  int
	grants bool          // by grantScript
	inbox  *redis.PubSub // made by the first Lock
	played atomic.Bool
}

func openPubsub(c Config) (Locker, error) {
	return &pubsub{rdb: redis.NewClient(&redis.Options{Addr: c.Addr}), index: c.Index}, nil
}

func openGrant(c Config) (Locker, error) {
	return &pubsub{rdb: redis.NewClient(&redis.Options{Addr: c.Addr}), index: c.Index, grants: true}, nil
}

// grantScript publishes after the commands that the release of a lock with one waiter takes in lockmw. It checks nothing.
var grantScript = redis.NewScript(`
local call = redis.call
call('HGET', KEYS[1], 'id')
call('ZCARD', KEYS[2])
local head = call('ZRANGE', KEYS[2], 0, 1)[1] or '-'
call('HMGET', KEYS[3], head)
call('GET', KEYS[4])
local time = call('TIME')
local now = time[1] .. string.sub('000000', #time[2] + 1) .. time[2]
call('DEL', KEYS[1], KEYS[2], KEYS[3])
call('SET', KEYS[4], now)
call('HSET', KEYS[1], 'id', head, 'owner', ARGV[1], 'token', now, 'inbox', ARGV[1])
call('PEXPIRE', KEYS[1], 2000)
call('ZADD', KEYS[2], now, head) -- for the next turn, as a waiter's acquire does
call('HSET', KEYS[3], head, ARGV[1])
return call('PUBLISH', ARGV[1], now)`)

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
		return &turn{l, key, channel(key, 1)}, nil
	}
	if _, err := l.inbox.ReceiveMessage(ctx); err != nil {
		return nil, err
	}
	return &turn{l, key, channel(key, 1-l.index)}, nil
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
	l       *pubsub
	key, to string
}

// pass publishes to the other process, and returns how many received the message.
func (t *turn) pass(ctx context.Context) (int64, error) {
	if t.l.grants {
		keys := []string{t.key, t.key + ":queue", t.key + ":tickets", t.key + ":fence"}
		return grantScript.Run(ctx, t.l.rdb, keys, t.to).Int64()
	}
	return t.l.rdb.Publish(ctx, t.to, "1").Result()
}

// Unlock implements Hold. It retries for a while: before its first turn the other process may not have subscribed yet.
func (t *turn) Unlock() error {
	ctx := context.Background()
	const tries = 1000
	for range tries {
		n, err := t.pass(ctx)
		if err != nil || n == 1 {
			return err
		}
		if err := Pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("no process listens")
}
