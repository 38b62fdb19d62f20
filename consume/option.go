package consume

import (
	"fmt"
	"time"

	"github.com/lockmw/go/internal/middleware"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// An Option configures a Queue. It is any lockmw.Option, or one of this package.
type Option interface{ option.Consumer }

type queueOption struct {
	option.ForConsumer
	middleware.Setting[config]
}

type config struct {
	lockOpts          []lockmw.Option
	limit             int
	shortest, longest time.Duration // pauses before further attempts
}

// WithLimit sets how many messages of one Partition may be submitted and not done; default 100. They are in memory, and each key among
// them has a goroutine, so it is also the most handlers of a Partition that run at a time. In a Partition of OpenInOrder a message that
// is done counts until all earlier ones are.
//
// Messages of one busy key can take the whole limit, and then the Partition waits for that key. n must be at least 1.
func WithLimit(n int) Option {
	return queueOption{Setting: func(c *config) error {
		if n < 1 {
			return fmt.Errorf("%w: WithLimit(%d), must be at least 1", lockmw.ErrInvalidOption, n)
		}
		c.limit = n
		return nil
	}}
}

// WithRetry sets the pauses before a message is tried again: about shortest at first, then twice as long each time, up to longest.
// Default: 100 ms, 10 s. Each pause is random, between half of that and all of it. New panics if shortest is not positive, or if longest
// is less than shortest.
func WithRetry(shortest, longest time.Duration) Option {
	return queueOption{Setting: func(c *config) error {
		c.shortest, c.longest = shortest, longest
		return middleware.CheckDelays("WithRetry", shortest, longest)
	}}
}

// newConfig panics if an option is invalid.
func newConfig(l lockmw.Locker, opts []Option) config {
	c := config{limit: 100, shortest: 100 * time.Millisecond, longest: 10 * time.Second}
	c.lockOpts = middleware.Split(&c, "consume: New", opts)
	if _, err := middleware.CheckLock(l, c.lockOpts, "WithPlace is one place for all messages"); err != nil {
		panic(fmt.Errorf("consume: New: %w", err))
	}
	return c
}
