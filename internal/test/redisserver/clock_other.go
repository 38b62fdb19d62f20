//go:build !linux

package redisserver

import "time"

// A clock exists only on Linux.
type clock struct{}

func newClock(string) (*clock, error) { return nil, ErrNoClock }

func (*clock) step(time.Duration) time.Duration { return 0 }

func (*clock) close() {}
