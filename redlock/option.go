package redlock

import (
	"fmt"
	"time"

	"github.com/lockmw/go/internal/quorum"
	"github.com/lockmw/go/lockmw"
)

// An Option configures New.
type Option func(*settings) error

type settings struct {
	cfg     quorum.Config
	options []lockmw.Option
}

const maxLimit = time.Second // of WithNodeTimeout

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: redlock: %w", lockmw.ErrInvalidOption, fmt.Errorf(format, args...))
}

// WithQuorum sets how many nodes must grant a lock. Default: n/2+1, the majority. k must be more than half of the nodes, and at most
// all. With k above the majority fewer nodes may be unreachable, but more may lose grants within a lease: up to 2k-n-1. With all
// nodes, as in Redisson's MultiLock, one unreachable node stops all calls.
func WithQuorum(k int) Option {
	return func(s *settings) error {
		if k < 1 {
			return invalid("WithQuorum(%d): must be more than half of the nodes", k)
		}
		s.cfg.Quorum = k
		return nil
	}
}

// WithoutToken takes locks without a fencing token, which may save a round trip. Default: with a token. Hold.Token then returns 0,
// which a store that compares tokens refuses.
func WithoutToken() Option {
	return func(s *settings) error {
		s.cfg.Tokens = false
		return nil
	}
}

// WithNodeTimeout sets how long a node may take to answer before it counts as unreachable. Default: 500 ms; from 1 ms to 1 s. While
// enough other nodes answer, calls do not wait for it. It must be longer than a round trip to the most distant node that is needed
// for a quorum.
func WithNodeTimeout(d time.Duration) Option {
	return func(s *settings) error {
		if d < time.Millisecond || d > maxLimit {
			return invalid("WithNodeTimeout(%v), must be from 1ms to %v", d, maxLimit)
		}
		s.cfg.NodeTimeout = d
		return nil
	}
}

// WithOptions sets defaults of the locks. They take precedence over the defaults of the first Client.
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
		return invalid("WithQuorum(%d) of %d nodes: two calls could each have as many; give it at least %d", k, n, n/2+1)
	}
	return nil
}
