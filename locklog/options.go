package locklog

import (
	"fmt"
	"time"

	"github.com/lockmw/go/internal/option"
)

// An Option configures New.
type Option func(*config)

type config struct {
	slowWait    time.Duration
	longHold    time.Duration
	redactKey   func(string) string
	quoteErrors bool
}

// newConfig returns the sum of the options. It panics if a value is invalid.
func newConfig(opts []Option) *config {
	c := &config{
		slowWait:    time.Second,
		longHold:    10 * time.Second,
		redactKey:   func(key string) string { return key },
		quoteErrors: true,
	}
	option.Apply(c, "locklog: New", opts)
	switch {
	case c.slowWait < 0:
		panic(fmt.Sprintf("locklog: New: WithSlowWait(%v): negative", c.slowWait))
	case c.longHold < 0:
		panic(fmt.Sprintf("locklog: New: WithLongHold(%v): negative", c.longHold))
	case c.redactKey == nil:
		panic("locklog: New: WithKeyRedactor(nil)")
	}
	return c
}

// WithSlowWait sets how long a call must wait to be logged: once when it has waited for d, and again when its wait has ended.
// Default 1 s. 0 logs every call when its wait has ended, lockmw.Forever logs none. New panics for negative values.
func WithSlowWait(d time.Duration) Option {
	return func(c *config) { c.slowWait = d }
}

// WithLongHold sets how long a hold must last to be logged: once when it has lasted for d, and again when it is released. Default
// 10 s. 0 logs every hold when it is released, lockmw.Forever logs none. New panics for negative values.
func WithLongHold(d time.Duration) Option {
	return func(c *config) { c.longHold = d }
}

// WithKeyRedactor hides keys: lines show the result of f instead of the key, or no key if the result is "". Default: the key
// itself. f must be safe for concurrent use, and is called only for lines that are written. If it panics, they show "!PANIC".
// With a redactor lines do not quote error messages, because servers and proxies may repeat keys in them. They still show
// lock.name, which is the key's kind unless lockmw.WithName is set.
func WithKeyRedactor(f func(key string) string) Option {
	return func(c *config) {
		c.redactKey, c.quoteErrors = f, false
	}
}
