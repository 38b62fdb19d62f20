package plain

import (
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var strangers = []env.Scenario{
	env.Case("at the lock's key are reported and left alone", strangerAtHolder, env.OnServer|env.OneNode|env.Shares|env.Sample),
	env.Case("in the queue's place are reported and left alone", strangerAtQueue, env.OnServer|env.OneNode|env.Shares),
	env.Case("in the tickets' place are reported and left alone", strangerAtTickets, env.OnServer|env.OneNode|env.Shares),
	env.Case("in the fencing counter's place are reported and left alone", strangerAtFence, env.OnServer|env.OneNode|env.OneServer|env.Shares|env.Sample),
	env.Case("that replace a held lock are left alone", strangerReplacesLock, env.OnServer|env.OneNode|env.Shares|env.Sample),
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
			continue // the members of a sorted set are tickets, whoever put them there
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

// strangerBehindHolder plants something that is met by who has to queue.
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
		e.T.Errorf("a %s at %s keeps the lock from being released", kind, where(key))
	}
	check()
}

func strangerAtFence(e *env.Env) {
	c := e.Client()
	for kind := range env.Plants {
		e.Server.Admin.Del(e.Ctx, e.Server.Prefix+":fence")
		check := e.Server.Plant(kind, e.Server.Prefix+":fence")
		_, _, err := e.Rec.Lock(e.Ctx, c, e.Key("user"), lockmw.WithWait(0))
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
		_ = held.Unlock() // what it says depends on when the loss is noticed
		_ = ctx
		check()
	}
}
