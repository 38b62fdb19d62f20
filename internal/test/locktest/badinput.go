package locktest

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/lockmw/go/lockmw"
)

var badInput = []scenario{
	{"keys that cannot be are refused before any command", refusedKeys, shares | sample},
	{"strange keys work and do not collide", strangeKeys, shares | sample},
	{"options out of range are refused before any command", refusedOptions, shares | sample},
}

// refused calls l and checks that it fails at once, with want, and without a command.
func (e *env) refused(what string, c *client, want error, key string, opts ...lockmw.Option) {
	e.t.Helper()
	if c.wire != nil {
		c.wire.Record()
	}
	start := time.Now()
	_, _, err := e.rec.Lock(e.ctx, c, key, opts...)
	e.is(what, err, want)
	if took := e.pace.since(start); took > e.soon {
		e.t.Errorf("%s: refused after %v", what, took)
	}
	if c.wire != nil && len(c.wire.Sent()) > 0 {
		e.t.Errorf("%s: sent %q", what, c.wire.Sent())
	}
}

func refusedKeys(e *env) {
	c := e.client()
	for what, key := range map[string]string{
		"an empty key":       "",
		"a key with no ID":   lockmw.Key("user", ""),
		"a key of 1025 byte": strings.Repeat("k", 1025),
		"a key of 64 KiB":    strings.Repeat("k", 64<<10),
	} {
		e.refused(what, c, lockmw.ErrInvalidKey, key)
		e.refused(what+", tried", c, lockmw.ErrInvalidKey, key, lockmw.WithWait(0))
	}
	err := lockmw.Do(e.ctx, c, "", func(context.Context) error {
		e.t.Error("the function ran without a lock")
		return nil
	})
	e.is("Do with an empty key", err, lockmw.ErrInvalidKey)
}

func strangeKeys(e *env) {
	c, other := e.client(), e.client()
	keys := []string{
		"x", "{", "}", "{}", "}{", "{x}", "x}", "x{y}z", "x}:queue", "x:queue", "x:tickets", "x:done:1", "fence",
		"%", "%%", "%7B", "%7D", "%00", "%25", "%257B", "\x00", "x\x00", "\r\n", "x\r\ny", "\r\nDEL x\r\n",
		" ", "x y", "x ", "\t", "'", `"`, "\\", "*", "?", "[a]", "\xff", "\xc3\x28", "x\xffy", "ü", "u\u0308",
		"日本語", "\U0001F512", "\u2028", "\x7f", "\x1b[31m", ":", "::", "user:", ":42",
		strings.Repeat("k", 1024), strings.Repeat("k", 1023), strings.Repeat("{", 1024), strings.Repeat("\x00", 1024),
	}
	for _, key := range keys {
		defer e.unlock(e.lock(c, key, lockmw.WithWait(0)))
	}
	for _, key := range keys {
		e.busy(other, key)
	}
}

func refusedOptions(e *env) {
	c := e.client()
	for what, o := range map[string]lockmw.Option{
		"a negative wait":            lockmw.WithWait(-1),
		"a lease of nothing":         lockmw.WithLease(0),
		"a lease under 100 ms":       lockmw.WithLease(minLease - 1),
		"a lease over 24 h":          lockmw.WithLease(24*time.Hour + 1),
		"a lease for ever":           lockmw.WithLease(lockmw.Forever),
		"a negative lease":           lockmw.WithLease(-time.Second),
		"a fixed lease under 100 ms": lockmw.WithFixedLease(minLease - 1),
		"a fixed lease over 24 h":    lockmw.WithFixedLease(24*time.Hour + 1),
		"a maximum hold of 1 ns":     lockmw.WithMaxHold(1),
		"a negative minimum hold":    lockmw.WithMinHold(-1),
		"a minimum hold over 24 h":   lockmw.WithMinHold(24*time.Hour + 1),
		"negative maximum waiters":   lockmw.WithMaxWaiters(-1),
		"no observer":                lockmw.WithObserver(nil),
		"a name that is too long":    lockmw.WithName(strings.Repeat("n", 201)),
		"an option of no function":   {},
	} {
		e.refused(what, c, lockmw.ErrInvalidOption, e.key("user"), o)
	}
	for what, o := range map[string]lockmw.Option{
		"the shortest lease":       lockmw.WithLease(minLease),
		"the longest lease":        lockmw.WithLease(24 * time.Hour),
		"the longest wait":         lockmw.WithWait(math.MaxInt64),
		"a wait of 290 years":      lockmw.WithWait(math.MaxInt64 - 1),
		"the longest fixed lease":  lockmw.WithFixedLease(24 * time.Hour),
		"the shortest maximum":     lockmw.WithMaxHold(time.Hour),
		"the longest maximum hold": lockmw.WithMaxHold(math.MaxInt64),
	} {
		ctx, held, err := e.rec.Lock(e.ctx, c, e.key("user"), o)
		if err != nil {
			e.t.Errorf("%s: %v", what, err)
			continue
		}
		e.unlock(ctx, held)
	}
}
