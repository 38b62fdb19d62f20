package fair

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

var ticketInput = withTickets([]env.Scenario{
	env.Case("invalid tickets are refused before any command", refusedTickets, env.Fair|env.Shares|env.Sample),
	env.Case("tickets for locks that are not fair are refused before any command", ticketsOfOtherKinds, env.Fair|env.OnServer|env.Shares|env.Sample),
	env.Case("strange tickets work and do not collide", strangeTickets, env.Fair|env.Shares|env.Sample),
})

func refusedTickets(e *env.Env) {
	c := e.Client()
	ctx, held := e.Lock(e.Client(), e.Key("item"))
	for what, o := range map[string]lockmw.Option{
		"a ticket without an id":        lockmw.WithPlace("", time.Minute),
		"a ticket of 201 bytes":         lockmw.WithPlace(strings.Repeat("t", 201), time.Minute),
		"a ticket of 64 KiB":            lockmw.WithPlace(strings.Repeat("t", 64<<10), time.Minute),
		"a ticket kept for 0 s":         lockmw.WithPlace("task", 0),
		"a ticket kept for -1 s":        lockmw.WithPlace("task", -time.Second),
		"a ticket kept for under 1 ms":  lockmw.WithPlace("task", time.Millisecond-1),
		"a ticket kept for 25 h":        lockmw.WithPlace("task", 25*time.Hour),
		"a ticket kept forever":         lockmw.WithPlace("task", lockmw.Forever),
		"a bad ticket among the others": lockmw.JoinOptions(lockmw.WithWait(time.Second), lockmw.WithPlace("", 1)),
	} {
		for _, key := range []string{e.Key("item"), held.Key()} {
			c.Refused(what, lockmw.ErrInvalidOption, key, o)
			c.Refused(what+", TryLock", lockmw.ErrInvalidOption, key, o, lockmw.WithWait(0))
		}
	}
	e.Unlock(ctx, held)
}

func ticketsOfOtherKinds(e *env.Env) {
	c := e.Client()
	ticket := lockmw.WithPlace("task", time.Minute)
	_, err := lockmw.New(e.Server.NewClient(e.TB), ticket)
	e.Is("a ticket as a client default", err, lockmw.ErrInvalidOption)
	rw := rwlock.New(c.Redis)
	for what, l := range map[string]lockmw.Locker{
		"a ticket on a plain lock":                     c.Redis,
		"a ticket on a lock for writing":               rw,
		"a ticket on a lock for reading":               rw.RLocker(),
		"a ticket as the default of a read-write lock": rwlock.New(c.Redis, ticket),
	} {
		other := c.With(l)
		other.Refused(what, lockmw.ErrInvalidOption, e.Key("item"), ticket)
		other.Refused(what+", TryLock", lockmw.ErrInvalidOption, e.Key("item"), ticket, lockmw.WithWait(0))
	}
}

func strangeTickets(e *env.Env) {
	a, b, q := e.Client(), e.Client(), newLine(e, e.Key("item"))
	ids := []string{
		"t", "T", "t ", " ", "t t", "\x00", "t\x00", "\r\n", "t\r\nDEL x\r\n", "{", "}", "{t}", "t}:queue", "queue",
		"%", "%00", "%74", ":", "*", "[t]", "'", `"`, "\\", "-", "+", "-inf", "0", "1e308", "#readers", "@t", "call-1",
		"ü", "u\u0308", "日本語", "\xff", "\xc3\x28", "\U0001F512", "\u2028", strings.Repeat("t", 200), strings.Repeat("\x00", 200),
		strings.Repeat("{", 199) + "}",
	}
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	ctx, held := e.Lock(a, q.key)
	for _, id := range ids {
		q.try(a, lockmw.WithPlace(id, longKept))
	}
	q.join(b)
	q.comeBack(b, ids)
	e.Unlock(ctx, held)
	q.run()
}
