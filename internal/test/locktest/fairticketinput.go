package locktest

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

var fairTicketInput = withTickets([]scenario{
	{"tickets out of range are refused before any command", refusedTickets, fair | shares | sample},
	{"tickets on locks that are not fair are refused before any command", ticketsOfOtherKinds, fair | server | shares | sample},
	{"strange tickets work and do not collide", strangeTickets, fair | shares | sample},
})

func refusedTickets(e *env) {
	c := e.client()
	ctx, held := e.lock(e.client(), e.key("item"))
	for what, o := range map[string]lockmw.Option{
		"a ticket without an id":        lockmw.WithPlace("", time.Minute),
		"a ticket of 201 bytes":         lockmw.WithPlace(strings.Repeat("t", 201), time.Minute),
		"a ticket of 64 KiB":            lockmw.WithPlace(strings.Repeat("t", 64<<10), time.Minute),
		"a ticket for no time":          lockmw.WithPlace("task", 0),
		"a ticket for a negative time":  lockmw.WithPlace("task", -time.Second),
		"a ticket for under 1 ms":       lockmw.WithPlace("task", time.Millisecond-1),
		"a ticket for 25 h":             lockmw.WithPlace("task", 25*time.Hour),
		"a ticket for ever":             lockmw.WithPlace("task", lockmw.Forever),
		"a bad ticket among the others": lockmw.JoinOptions(lockmw.WithWait(time.Second), lockmw.WithPlace("", 1)),
	} {
		for _, key := range []string{e.key("item"), held.Key()} {
			e.refused(what, c, lockmw.ErrInvalidOption, key, o)
			e.refused(what+", tried", c, lockmw.ErrInvalidOption, key, o, lockmw.WithWait(0))
		}
	}
	e.unlock(ctx, held)
}

func ticketsOfOtherKinds(e *env) {
	c := e.client()
	ticket := lockmw.WithPlace("task", time.Minute)
	_, err := lockmw.New(e.server.NewClient(e.tb), ticket)
	e.is("one ticket for all calls", err, lockmw.ErrInvalidOption)
	rw := rwlock.New(c.redis)
	for what, l := range map[string]lockmw.Locker{
		"a ticket on a plain lock":                     c.redis,
		"a ticket on a lock for writing":               rw,
		"a ticket on a lock for reading":               rw.RLocker(),
		"a ticket as the default of a read-write lock": rwlock.New(c.redis, ticket),
	} {
		other := &client{sides: sides{Locker: l, rival: l}, redis: c.redis, wire: c.wire}
		e.refused(what, other, lockmw.ErrInvalidOption, e.key("item"), ticket)
		e.refused(what+", tried", other, lockmw.ErrInvalidOption, e.key("item"), ticket, lockmw.WithWait(0))
	}
}

func strangeTickets(e *env) {
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ids := []string{
		"t", "T", "t ", " ", "t t", "\x00", "t\x00", "\r\n", "t\r\nDEL x\r\n", "{", "}", "{t}", "t}:queue", "queue",
		"%", "%00", "%74", ":", "*", "[t]", "'", `"`, "\\", "-", "+", "-inf", "0", "1e308", "#readers", "@t", "call-1",
		"ü", "u\u0308", "日本語", "\xff", "\xc3\x28", "\U0001F512", "\u2028", strings.Repeat("t", 200), strings.Repeat("\x00", 200),
		strings.Repeat("{", 199) + "}",
	}
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	ctx, held := e.lock(a, q.key)
	for _, id := range ids {
		q.try(a, lockmw.WithPlace(id, longKept))
	}
	q.join(b)
	q.comeBack(b, ids)
	e.unlock(ctx, held)
	q.run()
}
