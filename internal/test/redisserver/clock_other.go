//go:build !linux

package redisserver

import "time"

// A clock is what only Linux has.
type clock struct{}

func newClock(string) (*clock, error) { return nil, ErrNoClock }

func (*clock) step(time.Duration) {}

func (*clock) close() {}
