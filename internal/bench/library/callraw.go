package library

import (
	"context"
	"errors"

	"github.com/go-redis/cache/v9"
	"github.com/redis/go-redis/v9"
)

var (
	setnxLibrary = Library{Name: "setnx", Calls: openSetNX, Sends: []string{"set", "get"}}
	getLibrary   = Library{Name: "get", Calls: openGet, Sends: []string{"set", "get"}, Baseline: true}
	cacheLibrary = Library{Name: "redis-cache", Calls: openCache, Sends: []string{"set", "get"}}
)

// redisKey is the key in Redis of a Call, for libraries whose users choose it.
func (c Call) redisKey() string { return c.Scope + ":" + c.ID }

// records is the base of callers that store the answer of a key as its value.
type records struct {
	rdb  *redis.Client
	work Work
}

func openRecords(c Config, work Work) records {
	return records{redis.NewClient(&redis.Options{Addr: c.Addr}), work}
}

// Close implements Caller.
func (r records) Close() error { return r.rdb.Close() }

// doAndSet does the work and stores its answer.
func (r records) doAndSet(ctx context.Context, c Call) ([]byte, error) {
	answer, err := r.work(c)
	if err != nil {
		return nil, err
	}
	return answer, r.rdb.Set(ctx, c.redisKey(), answer, kept).Err()
}

// setnx is the textbook way: SET NX claims the key, and SET stores the answer. It is the floor of a first call.
type setnx struct{ records }

func openSetNX(c Config, work Work) (Caller, error) { return setnx{openRecords(c, work)}, nil }

// Call implements Caller. A key without an answer is refused until it expires, because the work may have been done.
func (r setnx) Call(ctx context.Context, c Call) ([]byte, error) {
	claimed, err := r.rdb.SetNX(ctx, c.redisKey(), "", kept).Result()
	if err != nil {
		return nil, err
	}
	if claimed {
		return r.doAndSet(ctx, c)
	}
	answer, err := r.rdb.Get(ctx, c.redisKey()).Bytes()
	if err == nil && len(answer) == 0 {
		err = errUnfinished
	}
	return answer, err
}

// get stores answers without any claim: its GET is the floor of a repetition.
type get struct{ records }

func openGet(c Config, work Work) (Caller, error) { return get{openRecords(c, work)}, nil }

// Call implements Caller.
func (r get) Call(ctx context.Context, c Call) ([]byte, error) {
	answer, err := r.rdb.Get(ctx, c.redisKey()).Bytes()
	if errors.Is(err, redis.Nil) {
		return r.doAndSet(ctx, c)
	}
	return answer, err
}

// cacheOnce is Once of go-redis/cache, without a cache in the process. Its documentation promises that one call of a key runs
// at a time.
type cacheOnce struct {
	records
	cache *cache.Cache
}

func openCache(c Config, work Work) (Caller, error) {
	r := openRecords(c, work)
	return cacheOnce{r, cache.New(&cache.Options{Redis: r.rdb})}, nil
}

// Call implements Caller.
func (r cacheOnce) Call(ctx context.Context, c Call) (answer []byte, err error) {
	err = r.cache.Once(&cache.Item{
		Ctx: ctx, Key: c.redisKey(), Value: &answer, TTL: kept,
		Do: func(*cache.Item) (any, error) { return r.work(c) },
	})
	return answer, err
}
