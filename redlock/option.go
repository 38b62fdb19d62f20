package redlock

import (
	"fmt"
	"time"

	"github.com/lockmw/go/internal/quorum"
	"github.com/lockmw/go/lockmw"
)

// An Option is for New.
type Option func(*settings) error

type settings struct {
	cfg     quorum.Config
	all     bool
	options []lockmw.Option
}

const (
	defaultLimit    = 500 * time.Millisecond
	maxLimit        = time.Second
	defaultMinDelay = 10 * time.Millisecond
	defaultMaxDelay = 500 * time.Millisecond
	longestDelay    = 10 * time.Second
	longestDrift    = 10 * time.Second
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: redlock: %w", lockmw.ErrInvalidOption, fmt.Errorf(format, args...))
}

// WithQuorum sets at how many nodes a call must have the lock; default n/2+1, the majority. It is more than half of the
// nodes, and at most all. With more than a majority fewer nodes may be away, and more may forget what they have granted:
// 2k-n-1 of them.
func WithQuorum(k int) Option {
	return func(s *settings) error {
		if k < 1 {
			return invalid("WithQuorum(%d): must be more than half of the nodes", k)
		}
		s.cfg.Quorum, s.all = k, false
		return nil
	}
}

// RequireAll demands the lock at all nodes. One that is away stops everybody; in return all but one may forget what they
// have granted. It is what Redisson calls a MultiLock.
func RequireAll() Option {
	return func(s *settings) error {
		s.all = true
		return nil
	}
}

// WithoutToken spares the round trip that may be needed to have enough nodes know the fencing token. Hold.Token returns 0
// then, which a store that compares tokens refuses.
func WithoutToken() Option {
	return func(s *settings) error {
		s.cfg.Tokens = false
		return nil
	}
}

// WithNodeTimeout sets how long a node may take to answer until it counts as away; default 500 ms, from 1 ms to 1 s. Nobody
// waits that long as long as enough others answer. It has to be longer than a round trip to the most distant node that is
// needed.
func WithNodeTimeout(d time.Duration) Option {
	return func(s *settings) error {
		if d < time.Millisecond || d > maxLimit {
			return invalid("WithNodeTimeout(%v), must be from 1ms to %v", d, maxLimit)
		}
		s.cfg.Limit = d
		return nil
	}
}

// WithDrift sets by how much a hold ends earlier than the Clients' own margin has it (lockmw.WithClockMargin, by default 1 %
// of the lease and 2 ms), for clocks that run at different speeds; default 0, at most 10 s. It should be much less than the
// lease: if it leaves nothing of the lease, New and calls fail with lockmw.ErrInvalidOption.
func WithDrift(d time.Duration) Option {
	return func(s *settings) error {
		if d < 0 || d > longestDrift {
			return invalid("WithDrift(%v), must be from 0 to %v", d, longestDrift)
		}
		s.cfg.Drift = d
		return nil
	}
}

// WithRetryDelay sets for how long a call pauses after an attempt that came to nothing: at random from least to twice that,
// then to four times and so on, up to most. Default 10 ms and 500 ms; from 1 ms to 10 s. Calls that wait for a holder do not
// pause: they are told when it is their turn.
func WithRetryDelay(least, most time.Duration) Option {
	return func(s *settings) error {
		if least < time.Millisecond || most < least || most > longestDelay {
			return invalid("WithRetryDelay(%v, %v), must be from 1ms to %v, and the second at least the first", least, most, longestDelay)
		}
		s.cfg.MinDelay, s.cfg.MaxDelay = least, most
		return nil
	}
}

// WithOptions sets defaults of the locks. They take precedence over those of the first node's Client.
func WithOptions(opts ...lockmw.Option) Option {
	return func(s *settings) error {
		s.options = append(s.options, opts...)
		return nil
	}
}

// setQuorum sets the quorum for n nodes.
func (s *settings) setQuorum(n int) error {
	switch k := s.cfg.Quorum; {
	case s.all:
		s.cfg.Quorum = n
	case k == 0:
		s.cfg.Quorum = n/2 + 1
	case k > n:
		return invalid("WithQuorum(%d) of %d nodes: give it at most %d, or RequireAll", k, n, n)
	case k <= n/2:
		return invalid("WithQuorum(%d) of %d nodes: two calls could each have so many; give it at least %d", k, n, n/2+1)
	}
	return nil
}
