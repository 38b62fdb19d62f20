package library

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/semaphore"
)

// Permits is how many calls hold a key of a semaphore at a time.
const Permits = 8

var (
	semaphoreLibrary = Library{Name: "lockmw-semaphore", Open: openSemaphore, Watchdog: true, Wakes: true, Ours: true, Permits: true}
	slotsLibrary     = Library{Name: "redislock-slots", Open: openSlots, Permits: true}
	zsetLibrary      = Library{Name: "zset-semaphore", Open: openZSet, Sends: []string{"zrem"}, Permits: true}
)

// A Gauge is a Locker that can report how many permits of a key are held on the server, and whether a call waits for one.
type Gauge interface {
	Held(ctx context.Context, key string) (weight int, waited bool, err error)
}

// A SlotHold is a Hold of a semaphore whose permits are numbered, from 0.
type SlotHold interface {
	Hold
	Slot() int
}

// permits is this module's semaphore with its defaults.
type permits struct {
	*Lockmw
	locker    *semaphore.Locker
	inspector *lockmw.Inspector
}

func openSemaphore(c Config) (Locker, error) {
	l, err := OpenLockmw(c)
	if err != nil {
		return nil, err
	}
	inspector, err := lockmw.NewInspector(l.RDB)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &permits{l, semaphore.New(l.Client, Permits), inspector}, nil
}

// Lock implements Locker.
func (l *permits) Lock(ctx context.Context, key string) (Hold, error) {
	return lockWith(ctx, l.locker, key)
}

// Held implements Gauge.
func (l *permits) Held(ctx context.Context, key string) (weight int, waited bool, err error) {
	s, err := l.inspector.Get(ctx, key)
	for _, h := range s.Holders {
		weight += h.Weight
	}
	return weight, len(s.Waiters) > 0, err
}

// slots is a hand-made semaphore: a lock for each permit. A call tries them one by one from a random one on, and all of them
// again after a pause.
type slots struct {
	rdb    *redis.Client
	client *redislock.Client
}

func openSlots(c Config) (Locker, error) {
	rdb := redis.NewClient(&redis.Options{Addr: c.Addr})
	return &slots{rdb, redislock.New(rdb)}, nil
}

// Lock implements Locker.
func (l *slots) Lock(ctx context.Context, key string) (Hold, error) {
	for {
		first := rand.IntN(Permits)
		for i := range Permits {
			slot := (first + i) % Permits
			lock, err := l.client.Obtain(ctx, key+":"+strconv.Itoa(slot), lease, nil)
			if err == nil {
				return slotHold{redislockHold{lock}, slot}, nil
			}
			if !errors.Is(err, redislock.ErrNotObtained) {
				return nil, err
			}
		}
		if err := Pause(ctx, pause()); err != nil {
			return nil, err
		}
	}
}

// pause returns a random time around shortPause.
func pause() time.Duration { return shortPause/2 + rand.N(shortPause) }

// Close implements Locker.
func (l *slots) Close() error { return l.rdb.Close() }

type slotHold struct {
	redislockHold
	slot int
}

// Slot implements SlotHold.
func (h slotHold) Slot() int { return h.slot }

// zset keeps the ends of all permits in a sorted set, as the semaphore of asynq's x/rate does: a script removes expired
// permits, and adds one if there are not too many. The published module of that package is for an asynq of 2021.
type zset struct{ rdb *redis.Client }

var zsetScript = redis.NewScript(`
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[4])
return 1`)

func openZSet(c Config) (Locker, error) {
	return &zset{redis.NewClient(&redis.Options{Addr: c.Addr})}, nil
}

// Lock implements Locker. It tries again after a pause.
func (l *zset) Lock(ctx context.Context, key string) (Hold, error) {
	id := strconv.FormatUint(rand.Uint64(), 36)
	for {
		now := time.Now()
		n, err := zsetScript.Run(ctx, l.rdb, []string{key}, now.UnixMilli(), Permits, now.Add(lease).UnixMilli(), id).Int()
		switch {
		case err != nil:
			return nil, err
		case n == 1:
			return zsetHold{l, key, id}, nil
		}
		if err := Pause(ctx, pause()); err != nil {
			return nil, err
		}
	}
}

// Close implements Locker.
func (l *zset) Close() error { return l.rdb.Close() }

type zsetHold struct {
	l       *zset
	key, id string
}

// Unlock implements Hold.
func (h zsetHold) Unlock() error {
	n, err := h.l.rdb.ZRem(context.Background(), h.key, h.id).Result()
	if err == nil && n != 1 {
		err = errNotHeld
	}
	return err
}
