package locklog

import (
	"fmt"
	"time"

	"github.com/lockmw/go/internal/option"
)

// An Option changes what New logs.
type Option func(*config)

type config struct {
	slowWait    time.Duration
	longHold    time.Duration
	redactKey   func(string) string
	quoteErrors bool
}

// newConfig adds up the options. It panics if a value is invalid.
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

// WithSlowWait sets how long a call must wait to be logged: once when it has waited so long, and when its wait is
// over. Default 1 s. 0 logs every call when its wait is over, lockmw.Forever none. Negative values are refused.
func WithSlowWait(d time.Duration) Option {
	return func(c *config) { c.slowWait = d }
}

// WithLongHold sets how long a hold must last to be logged: once when it has lasted so long, and when it is
// released. Default 10 s. 0 logs every hold when it is released, lockmw.Forever none. Negative values are
// refused.
func WithLongHold(d time.Duration) Option {
	return func(c *config) { c.longHold = d }
}

// WithKeyRedactor sets what lines show of a key: what f returns, or nothing if that is "". f must be safe
// for concurrent use and is called only for lines that are written; if it panics, they show "!PANIC".
// Lines then do not quote error messages either, since servers and proxies may repeat keys in them.
// lock.name is shown all the same: it is the key's kind unless lockmw.WithName says otherwise. Default:
// the key itself.
func WithKeyRedactor(f func(key string) string) Option {
	return func(c *config) {
		c.redactKey, c.quoteErrors = f, false
	}
}
