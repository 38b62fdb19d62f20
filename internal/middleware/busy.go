package middleware

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/internal/keyed"
	"github.com/lockmw/go/lockmw"
)

// CheckKey returns the *Error of a call whose key function has returned key and err, or nil if the key is valid. call is the noun for
// what needs the key, such as "job".
func CheckKey(call, key string, err error) error {
	if err == nil && key == "" {
		err = keyed.ErrEmpty
	}
	if err != nil {
		return &lockmw.Error{Op: "key", Err: fmt.Errorf("no key for this %s: %w", call, err)}
	}
	return nil
}

// IsBusy reports whether err means that others hold the lock or wait for it.
func IsBusy(err error) bool {
	return errors.Is(err, lockmw.ErrBusy) || errors.Is(err, lockmw.ErrTooManyWaiters)
}

// BackOff returns a random time of at least shortest, after which a call that was put back n times before tries again. Its upper limit
// is twice step at first, and doubles each time, up to longest.
func BackOff(shortest, step, longest time.Duration, n int) time.Duration {
	limit := longest
	if doublings := min(n, 61) + 1; step < longest>>doublings {
		limit = step << doublings
	}
	return shortest + rand.N(limit-shortest+1)
}
