// Package middleware contains the rules that the middlewares for requests, calls, tasks, jobs and messages share: their options, the
// keys that they accept, and the time after which a task or job with a busy lock comes back.
package middleware

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// A Setting is an option of one package. It changes that package's configuration.
type Setting[C any] func(*C) error

// Apply changes c, or returns why the value of the option is invalid.
func (s Setting[C]) Apply(c *C) error { return s(c) }

// Split applies the Settings among opts to c, and returns the other options, which are for the lock. It panics if an option is
// invalid. function is the name of the function that received the options, with its package: "rivermw: WithLock".
func Split[C, O any](c *C, function string, opts []O) (lock []lockmw.Option) {
	for i, o := range opts {
		switch o := any(o).(type) {
		case lockmw.Option:
			lock = append(lock, o)
		case interface{ Apply(c *C) error }:
			if err := o.Apply(c); err != nil {
				panic(fmt.Errorf("%s: %w", function, err))
			}
		default:
			pkg, _, _ := strings.Cut(function, ":")
			panic(fmt.Sprintf("%s: option %d is %T, not an Option made by lockmw or %s", function, i+1, o, pkg))
		}
	}
	return slices.Clip(lock)
}

// CheckLock returns the sum of the options for the locks of l. All calls of a middleware have the same options, so WithPlace is
// invalid; sharedPlace says why. An error wraps lockmw.ErrInvalidOption.
func CheckLock(l lockmw.Locker, opts []lockmw.Option, sharedPlace string) (lockmw.Policy, error) {
	policy, err := lockmw.NewPolicy(opts...)
	switch {
	case err != nil:
	case policy.Place != "":
		err = fmt.Errorf("%w: %s", lockmw.ErrInvalidOption, sharedPlace)
	default:
		err = lockmw.CheckOptions(l, opts...)
	}
	return policy, err
}

// CheckGiven checks that the value of the option with that name is not nil.
func CheckGiven(name string, value any) error {
	if option.IsNil(value) {
		return fmt.Errorf("%w: %s(nil)", lockmw.ErrInvalidOption, name)
	}
	return nil
}

// CheckPlaceKept checks the value of a WithPlaceKept.
func CheckPlaceKept(d time.Duration) error {
	if _, err := lockmw.NewPolicy(lockmw.WithPlace("any", d)); err != nil || d == 0 {
		return fmt.Errorf("%w: WithPlaceKept(%v), must be from 1ms to 24h", lockmw.ErrInvalidOption, d)
	}
	return nil
}

// CheckDelays checks the shortest and the longest delay of the option with that name.
func CheckDelays(name string, shortest, longest time.Duration) error {
	if shortest <= 0 || longest < shortest {
		return fmt.Errorf("%w: %s(%v, %v): shortest must be positive, and longest not less than shortest", lockmw.ErrInvalidOption, name, shortest, longest)
	}
	return nil
}
