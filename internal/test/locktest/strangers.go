package locktest

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/lockmw"
)

var strangers = []scenario{
	{"at the lock's key are reported and left alone", strangerAtHolder, server | shares | sample},
	{"in the queue's place are reported and left alone", strangerAtQueue, server | shares},
	{"in the tickets' place are reported and left alone", strangerAtTickets, server | shares},
	{"in the fencing counter's place are reported and left alone", strangerAtFence, server | shares | sample},
	{"that replace a held lock are left alone", strangerReplacesLock, server | shares | sample},
}

// plants are the things that somebody else may keep in Redis.
var plants = map[string]func(e *env, at string) error{
	"string": func(e *env, at string) error { return e.admin.Set(e.ctx, at, "a stranger's", 0).Err() },
	"list":   func(e *env, at string) error { return e.admin.RPush(e.ctx, at, "a", "b").Err() },
	"set":    func(e *env, at string) error { return e.admin.SAdd(e.ctx, at, "a", "b").Err() },
	"zset":   func(e *env, at string) error { return e.admin.ZAdd(e.ctx, at, redis.Z{Score: 1, Member: "a"}).Err() },
	"hash":   func(e *env, at string) error { return e.admin.HSet(e.ctx, at, "9f8c:12", 1).Err() }, // as Redisson's
	"stream": func(e *env, at string) error {
		return e.admin.XAdd(e.ctx, &redis.XAddArgs{Stream: at, Values: []string{"a", "b"}}).Err()
	},
}

// plant puts a stranger's thing somewhere, and returns a check that it was left alone, which then
// removes it.
func (e *env) plant(kind, at string) (check func()) {
	e.t.Helper()
	if err := plants[kind](e, at); err != nil {
		e.t.Fatal(err)
	}
	before := e.show(at)
	return func() {
		e.t.Helper()
		if after := e.show(at); after != before {
			e.t.Errorf("a %s at %s was %s and is %s", kind, at, before, after)
		}
		e.admin.Del(e.ctx, at)
	}
}

// show is what a key holds and for how long.
func (e *env) show(at string) string {
	kind := e.admin.Type(e.ctx, at).Val()
	var what any
	switch kind {
	case "string":
		what = e.admin.Get(e.ctx, at).Val()
	case "list":
		what = e.admin.LRange(e.ctx, at, 0, -1).Val()
	case "set":
		what = len(e.admin.SMembers(e.ctx, at).Val())
	case "zset":
		what = e.admin.ZRangeWithScores(e.ctx, at, 0, -1).Val()
	case "hash":
		what = e.admin.HGetAll(e.ctx, at).Val()
	case "stream":
		what = e.admin.XRange(e.ctx, at, "-", "+").Val()
	}
	return fmt.Sprintf("%s %v for %v", kind, what, e.admin.PTTL(e.ctx, at).Val())
}

func strangerAtHolder(e *env) {
	c := e.client()
	for kind := range plants {
		key := e.key("user")
		check := e.plant(kind, e.redisKey(key))
		_, _, err := e.rec.Lock(e.ctx, c, key, lockmw.WithWait(0))
		e.is("TryLock at a "+kind, err, lockmw.ErrWrongType)
		_, _, err = e.rec.Lock(e.ctx, c, key)
		e.is("Lock at a "+kind, err, lockmw.ErrWrongType)
		check()
	}
}

func strangerAtQueue(e *env) {
	for kind := range plants {
		if kind == "zset" {
			continue // the members of a sorted set are tickets, whoever put them there
		}
		e.strangerBehindHolder(kind, ":queue")
	}
}

func strangerAtTickets(e *env) {
	for kind := range plants {
		if kind != "hash" { // as above
			e.strangerBehindHolder(kind, ":tickets")
		}
	}
}

// strangerBehindHolder plants something that is met by who has to queue.
func (e *env) strangerBehindHolder(kind, suffix string) {
	e.t.Helper()
	c, key := e.client(), e.key("user")
	ctx, held := e.lock(c, key)
	check := e.plant(kind, e.redisKey(key)+suffix)
	_, _, err := e.rec.Lock(e.ctx, e.client().rival, key)
	e.is("Lock with a "+kind+" in the way", err, lockmw.ErrWrongType)
	if err := held.Unlock(); err != nil {
		e.is("Unlock with a "+kind+" in the way", err, lockmw.ErrWrongType)
	}
	_ = ctx
	if e.admin.Exists(e.ctx, e.redisKey(key)).Val() != 0 {
		e.t.Errorf("a %s at %s keeps the lock from being released", kind, suffix)
	}
	check()
}

func strangerAtFence(e *env) {
	c := e.client()
	for kind := range plants {
		e.admin.Del(e.ctx, e.prefix+":fence")
		check := e.plant(kind, e.prefix+":fence")
		_, _, err := e.rec.Lock(e.ctx, c, e.key("user"), lockmw.WithWait(0))
		e.is("TryLock with a "+kind+" as the counter", err, lockmw.ErrWrongType)
		check()
	}
}

func strangerReplacesLock(e *env) {
	c := e.client()
	for kind := range plants {
		key := e.key("user")
		ctx, held := e.lock(c, key)
		e.rec.Forfeit()
		e.admin.Del(e.ctx, e.redisKey(key))
		check := e.plant(kind, e.redisKey(key))
		_ = held.Unlock() // what it says depends on when the loss is noticed
		_ = ctx
		check()
	}
}
