package httpmw

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/go/internal/kinds"
	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// An Option is any lockmw.Option, or one of this package.
type Option interface{ option.HTTP }

type httpOption struct {
	option.ForHTTP
	apply func(*config) error
}

type config struct {
	locker      any // whose Logger is used
	lock        []lockmw.Option
	methods     []string                                        // nil: all
	onError     func(http.ResponseWriter, *http.Request, error) // nil: WriteError
	name        string                                          // of the lock, in logs; "": its key's kind
	unavailable loglimit.Limit                                  // of the lines about it
	invalid     loglimit.Limit                                  // of the lines about keys that cannot be made
	longestWait time.Duration                                   // 0: the Locker has been given a limit
	waits       bool                                            // for a busy lock, as far as that is known
}

// WithMethods locks only requests with these methods; others are handled without a lock. Default:
// all are locked. Methods are compared exactly. One that is not in upper case is refused, as are an
// invalid one and an empty list: each would mean that nothing is locked.
func WithMethods(methods ...string) Option {
	methods = slices.Clone(methods)
	return httpOption{apply: func(c *config) error {
		if len(methods) == 0 {
			return fmt.Errorf("%w: WithMethods without a method", lockmw.ErrInvalidOption)
		}
		for _, m := range methods {
			if !isToken(m) {
				return fmt.Errorf("%w: WithMethods(%q): not a method", lockmw.ErrInvalidOption, m)
			}
			if m != strings.ToUpper(m) {
				return fmt.Errorf("%w: WithMethods(%q): methods are in upper case", lockmw.ErrInvalidOption, m)
			}
		}
		c.methods = methods
		return nil
	}}
}

// WithErrorHandler replaces WriteError: h answers a request that is not handled because of its lock. The
// error wraps one of lockmw's, or ErrNoClaim or ErrWiring; an error of the key function comes as a
// *lockmw.Error with Op "key". h may call WriteError for other errors. If h sends neither a status nor a
// body, WriteError answers: a refusal is never an empty 200. h finds Cache-Control: no-store, which it may change, and no
// header that describes the intended response or lets a cache store it. h is not called if the request was cancelled
// without a cause, for example because the client has gone, nor if the response has begun.
func WithErrorHandler(h func(http.ResponseWriter, *http.Request, error)) Option {
	return httpOption{apply: func(c *config) error {
		if h == nil {
			return fmt.Errorf("%w: WithErrorHandler(nil)", lockmw.ErrInvalidOption)
		}
		c.onError = h
		return nil
	}}
}

// newConfig adds up the options of a middleware. It panics if that cannot work, so that a mistake is
// found at start and not at the first request.
func newConfig(name string, locker lockmw.Locker, noKey bool, opts []Option) *config {
	option.NotNil(locker, "httpmw: "+name+": the Locker is nil")
	if noKey {
		panic(fmt.Sprintf("httpmw: %s: the key function is nil", name))
	}
	c := &config{
		locker: locker,
		lock:   []lockmw.Option{lockmw.WithDefaults(lockmw.WithWait(0), lockmw.WithMaxHold(defaultMaxHold))},
	}
	for i, o := range opts {
		switch o := o.(type) {
		case lockmw.Option:
			c.lock = append(c.lock, o)
		case httpOption:
			if err := o.apply(c); err != nil {
				panic(fmt.Errorf("httpmw: %s: %w", name, err))
			}
		default:
			panic(fmt.Sprintf("httpmw: %s: option %d is %T, not an Option made by lockmw or httpmw", name, i+1, o))
		}
	}
	policy, err := lockmw.NewPolicy(c.lock[1:]...)
	if err == nil && policy.Place == "" {
		err = lockmw.CheckOptions(locker, c.lock[1:]...)
	}
	if err != nil {
		panic(fmt.Errorf("httpmw: %s: %w", name, err))
	}
	if policy.Place != "" {
		panic(fmt.Errorf("httpmw: %s: %w: WithPlace: all requests would share one place in the queue", name, lockmw.ErrInvalidOption))
	}
	c.limitWait(policy.Wait)
	c.name = policy.Name
	c.lock = slices.Clip(c.lock)
	return c
}

// limitWait finds out whether requests wait, and limits that. given is what the options say, or Forever.
func (c *config) limitWait(given time.Duration) {
	l, _ := c.locker.(lockmw.Locker)
	policy, known := kinds.PolicyOf(l, c.lock...)
	if !known { // its default may be to wait
		policy, _ = lockmw.NewPolicy(c.lock...)
	}
	c.waits = policy.Wait > 0
	if policy.Wait == lockmw.Forever || !known && given == lockmw.Forever {
		c.longestWait = longestWait
	}
}

// isToken reports whether s may be a method or the name of a header (RFC 9110, 5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		alphanumeric := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}
