package httpmw

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/go/internal/kinds"
	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/middleware"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// An Option configures a middleware. It is any lockmw.Option, or one of this package.
type Option interface{ option.HTTP }

type httpOption struct {
	option.ForHTTP
	middleware.Setting[config]
}

// A SharedOption configures any middleware of this package, Idempotent too.
type SharedOption interface {
	Option
	IdempotentOption
}

type sharedOption struct {
	httpOption
	option.ForIdempotent
}

type config struct {
	locker      any // logs go to its Logger
	lock        []lockmw.Option
	methods     []string                                        // nil: all
	onError     func(http.ResponseWriter, *http.Request, error) // nil: WriteError
	name        string                                          // of the lock, in logs; "": the kind of its key
	refusals    loglimit.Limit                                  // of lines about refused requests
	invalid     loglimit.Limit                                  // of lines about invalid keys
	longestWait time.Duration                                   // 0: the wait has a limit already
	waits       bool                                            // for a busy lock, as far as is known
}

// WithMethods locks only requests with these methods; others run without a lock. The default locks all methods. Methods are
// compared exactly. The middleware panics if a method is invalid or not in upper case, or if the list is empty: each would lock
// no request.
func WithMethods(methods ...string) Option {
	methods = slices.Clone(methods)
	return httpOption{Setting: func(c *config) error {
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

// WithErrorHandler replaces WriteError, the default: h answers a request that is refused because of its lock, or whose lock was
// lost before the handler began to answer.
//
// The error wraps one of lockmw's errors, ErrNoClaim or ErrWiring. An error of the key function arrives as a *lockmw.Error with Op
// "key". h may call WriteError for errors that it does not handle. If h sends neither a status nor a body, WriteError answers, so
// that a refusal is never an empty 200.
//
// Before h is called, headers that describe the intended response or let a cache store it are removed, and Cache-Control is set
// to no-store. h may set them again.
//
// With Idempotent, h also answers a retry whose outcome is not a recorded answer. The error then wraps one of package idempotency,
// or lockmw.ErrInvalidKey for a key that is missing or not valid.
//
// h is not called if the request was cancelled without a cause, for example because the client has disconnected, nor if the
// response has begun.
func WithErrorHandler(h func(http.ResponseWriter, *http.Request, error)) SharedOption {
	return sharedOption{httpOption: httpOption{Setting: func(c *config) error {
		c.onError = h
		return middleware.CheckGiven("WithErrorHandler", h)
	}}}
}

// newConfig applies the options of a middleware. It panics if they are invalid, so that a mistake shows at start and not at the
// first request.
func newConfig(name string, locker lockmw.Locker, noKey bool, opts []Option) *config {
	option.NotNil(locker, "httpmw: "+name+": the Locker is nil")
	if noKey {
		panic(fmt.Sprintf("httpmw: %s: the key function is nil", name))
	}
	c := &config{locker: locker}
	given := middleware.Split(c, "httpmw: "+name, opts)
	policy, err := middleware.CheckLock(locker, given, "WithPlace: all requests would share one place in the queue")
	if err != nil {
		panic(fmt.Errorf("httpmw: %s: %w", name, err))
	}
	defaults := lockmw.WithDefaults(lockmw.WithWait(0), lockmw.WithMaxHold(defaultMaxHold))
	c.lock = slices.Clip(append([]lockmw.Option{defaults}, given...))
	c.name = policy.Name
	c.limitWait(locker, policy.Wait)
	return c
}

// limitWait finds out whether requests wait, and limits a wait without a limit. given is the wait of the options, or Forever.
func (c *config) limitWait(l lockmw.Locker, given time.Duration) {
	policy, known := kinds.PolicyOf(l, c.lock...)
	if !known { // a foreign Locker may wait by default
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
