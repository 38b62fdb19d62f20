package plain

import (
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var strangers = []env.Scenario{
	env.Case("a foreign value at the lock's key is reported and left alone", strangerAtHolder, env.OnServer|env.OneNode|env.Shares|env.Sample),
	env.Case("a foreign value at the queue's key is reported and left alone", strangerAtQueue, env.OnServer|env.OneNode|env.Shares),
	env.Case("a foreign value at the tickets' key is reported and left alone", strangerAtTickets, env.OnServer|env.OneNode|env.Shares),
	env.Case("a foreign value at the fencing counter's key is reported and left alone", strangerAtFence, env.OnServer|env.OneNode|env.OneServer|env.Shares|env.Sample),
	env.Case("a foreign value that replaces a held lock is left alone", strangerReplacesLock, env.OnServer|env.OneNode|env.Shares|env.Sample),
}

func strangerAtHolder(e *env.Env) {
	c := e.Client()
	for kind := range env.Plants {
		key := e.Key("user")
		check := e.Server.Plant(kind, e.Server.RedisKey(key))
		_, _, err := e.Rec.Lock(e.Ctx, c, key, lockmw.WithWait(0))
		e.Is("TryLock at a "+kind, err, lockmw.ErrWrongType)
		_, _, err = e.Rec.Lock(e.Ctx, c, key)
		e.Is("Lock at a "+kind, err, lockmw.ErrWrongType)
		check()
	}
}

func strangerAtQueue(e *env.Env) {
	for kind := range env.Plants {
		if kind == "zset" {
			continue // members of a sorted set count as tickets, even foreign ones
		}
		strangerBehindHolder(e, kind, e.Server.QueueKey)
	}
}

func strangerAtTickets(e *env.Env) {
	for kind := range env.Plants {
		if kind != "hash" { // as above
			strangerBehindHolder(e, kind, e.Server.TicketsKey)
		}
	}
}

// strangerBehindHolder plants a value that a queueing call meets.
func strangerBehindHolder(e *env.Env, kind string, where func(key string) string) {
	e.T.Helper()
	c, key := e.Client(), e.Key("user")
	ctx, held := e.Lock(c, key)
	check := e.Server.Plant(kind, where(key))
	_, _, err := e.Rec.Lock(e.Ctx, e.Client().Rival, key)
	e.Is("Lock with a "+kind+" in the way", err, lockmw.ErrWrongType)
	if err := held.Unlock(); err != nil {
		e.Is("Unlock with a "+kind+" in the way", err, lockmw.ErrWrongType)
	}
	_ = ctx
	if e.Server.Admin.Exists(e.Ctx, e.Server.RedisKey(key)).Val() != 0 {
		e.T.Errorf("a %s at %s prevents the release", kind, where(key))
	}
	check()
}

func strangerAtFence(e *env.Env) {
	c := e.Client()
	for kind := range env.Plants {
		key := e.Key("user")
		fence := e.Server.FenceKey(key)
		e.Server.Admin.Del(e.Ctx, fence)
		check := e.Server.Plant(kind, fence)
		_, _, err := e.Rec.Lock(e.Ctx, c, key, lockmw.WithWait(0))
		e.Is("TryLock with a "+kind+" as the counter", err, lockmw.ErrWrongType)
		check()
	}
}

func strangerReplacesLock(e *env.Env) {
	c := e.Client()
	for kind := range env.Plants {
		key := e.Key("user")
		ctx, held := e.Lock(c, key)
		e.Rec.Forfeit()
		e.Server.Admin.Del(e.Ctx, e.Server.RedisKey(key))
		check := e.Server.Plant(kind, e.Server.RedisKey(key))
		_ = held.Unlock() // the result depends on when the loss is noticed
		_ = ctx
		check()
	}
}
