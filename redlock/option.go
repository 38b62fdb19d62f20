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
	options []lockmw.Option
}

const maxLimit = time.Second // of WithNodeTimeout

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: redlock: %w", lockmw.ErrInvalidOption, fmt.Errorf(format, args...))
}

// WithQuorum sets at how many nodes a call must have the lock; default n/2+1, the majority. It is more than half of the
// nodes, and at most all. With more than a majority fewer nodes may be away, and more may forget what they have granted:
// 2k-n-1 of them. With all nodes, as in Redisson's MultiLock, one that is away stops everybody.
func WithQuorum(k int) Option {
	return func(s *settings) error {
		if k < 1 {
			return invalid("WithQuorum(%d): must be more than half of the nodes", k)
		}
		s.cfg.Quorum = k
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
	case k == 0:
		s.cfg.Quorum = n/2 + 1
	case k > n:
		return invalid("WithQuorum(%d) of %d nodes: give it at most %d", k, n, n)
	case k <= n/2:
		return invalid("WithQuorum(%d) of %d nodes: two calls could each have so many; give it at least %d", k, n, n/2+1)
	}
	return nil
}
