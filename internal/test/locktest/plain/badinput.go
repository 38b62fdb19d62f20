package plain

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var badInput = []env.Scenario{
	env.Case("invalid keys are refused before any command", refusedKeys, env.Shares|env.Sample),
	env.Case("strange keys work and do not collide", strangeKeys, env.Shares|env.Sample),
	env.Case("options out of range are refused before any command", refusedOptions, env.Shares|env.Sample),
}

func refusedKeys(e *env.Env) {
	c := e.Client()
	for what, key := range map[string]string{
		"an empty key":       "",
		"a key with no ID":   lockmw.Key("user", ""),
		"a key of 1025 byte": strings.Repeat("k", 1025),
		"a key of 64 KiB":    strings.Repeat("k", 64<<10),
	} {
		c.Refused(what, lockmw.ErrInvalidKey, key)
		c.Refused(what+", TryLock", lockmw.ErrInvalidKey, key, lockmw.WithWait(0))
	}
	err := lockmw.Do(e.Ctx, c, "", func(context.Context) error {
		e.T.Error("the function ran without a lock")
		return nil
	})
	e.Is("Do with an empty key", err, lockmw.ErrInvalidKey)
}

func strangeKeys(e *env.Env) {
	c, other := e.Client(), e.Client()
	keys := []string{
		"x", "{", "}", "{}", "}{", "{x}", "x}", "x{y}z", "x}:queue", "x:queue", "x:tickets", "x:done:1", "fence",
		"%", "%%", "%7B", "%7D", "%00", "%25", "%257B", "\x00", "x\x00", "\r\n", "x\r\ny", "\r\nDEL x\r\n",
		" ", "x y", "x ", "\t", "'", `"`, "\\", "*", "?", "[a]", "\xff", "\xc3\x28", "x\xffy", "ü", "u\u0308",
		"日本語", "\U0001F512", "\u2028", "\x7f", "\x1b[31m", ":", "::", "user:", ":42",
		strings.Repeat("k", 1024), strings.Repeat("k", 1023), strings.Repeat("{", 1024), strings.Repeat("\x00", 1024),
	}
	for _, key := range keys {
		defer e.Unlock(e.Lock(c, key, lockmw.WithWait(0)))
	}
	for _, key := range keys {
		e.Busy(other, key)
	}
}

func refusedOptions(e *env.Env) {
	c := e.Client()
	for what, o := range map[string]lockmw.Option{
		"a negative wait":            lockmw.WithWait(-1),
		"a zero lease":               lockmw.WithLease(0),
		"a lease under 100 ms":       lockmw.WithLease(env.MinLease - 1),
		"a lease over 24 h":          lockmw.WithLease(24*time.Hour + 1),
		"an endless lease":           lockmw.WithLease(lockmw.Forever),
		"a negative lease":           lockmw.WithLease(-time.Second),
		"a fixed lease under 100 ms": lockmw.WithFixedLease(env.MinLease - 1),
		"a fixed lease over 24 h":    lockmw.WithFixedLease(24*time.Hour + 1),
		"a maximum hold of 1 ns":     lockmw.WithMaxHold(1),
		"a negative minimum hold":    lockmw.WithMinHold(-1),
		"a minimum hold over 24 h":   lockmw.WithMinHold(24*time.Hour + 1),
		"negative maximum waiters":   lockmw.WithMaxWaiters(-1),
		"a nil observer":             lockmw.WithObserver(nil),
		"a name of 201 bytes":        lockmw.WithName(strings.Repeat("n", 201)),
		"a zero Option":              {},
	} {
		c.Refused(what, lockmw.ErrInvalidOption, e.Key("user"), o)
	}
	for what, o := range map[string]lockmw.Option{
		"the shortest lease":        lockmw.WithLease(env.MinLease),
		"the longest lease":         lockmw.WithLease(24 * time.Hour),
		"the longest wait":          lockmw.WithWait(math.MaxInt64),
		"a wait of 290 years":       lockmw.WithWait(math.MaxInt64 - 1),
		"the longest fixed lease":   lockmw.WithFixedLease(24 * time.Hour),
		"a maximum hold of an hour": lockmw.WithMaxHold(time.Hour),
		"the longest maximum hold":  lockmw.WithMaxHold(math.MaxInt64),
	} {
		_, held, err := e.Rec.Lock(e.Ctx, c, e.Key("user"), o)
		if err != nil {
			e.T.Errorf("%s: %v", what, err)
			continue
		}
		if err := held.Unlock(); err != nil && !errors.Is(err, lockmw.ErrLost) { // a busy machine may be slower than the shortest lease
			e.T.Errorf("%s: Unlock: %v", what, err)
		}
	}
}
