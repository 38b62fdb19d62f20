package consume

import (
	"fmt"
	"time"

	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// An Option configures a Queue. It is any lockmw.Option, or one of this package.
type Option interface{ option.Consumer }

type queueOption struct {
	option.ForConsumer
	apply func(*config) error
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
	return queueOption{apply: func(c *config) error {
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
	return queueOption{apply: func(c *config) error {
		if shortest <= 0 || longest < shortest {
			return fmt.Errorf("%w: WithRetry(%v, %v): shortest must be positive, and longest not less than shortest", lockmw.ErrInvalidOption, shortest, longest)
		}
		c.shortest, c.longest = shortest, longest
		return nil
	}}
}

// newConfig panics if an option is invalid.
func newConfig(l lockmw.Locker, opts []Option) config {
	c := config{limit: 100, shortest: 100 * time.Millisecond, longest: 10 * time.Second}
	for i, o := range opts {
		var err error
		switch o := o.(type) {
		case lockmw.Option:
			c.lockOpts = append(c.lockOpts, o)
		case queueOption:
			err = o.apply(&c)
		default:
			err = fmt.Errorf("%w: option %d is %T, not an Option made by lockmw or consume", lockmw.ErrInvalidOption, i+1, o)
		}
		if err != nil {
			panic(fmt.Errorf("consume: New: %w", err))
		}
	}
	policy, err := lockmw.NewPolicy(c.lockOpts...)
	switch {
	case err != nil:
	case policy.Place != "":
		err = fmt.Errorf("%w: WithPlace is one place for all messages", lockmw.ErrInvalidOption)
	default:
		err = lockmw.CheckOptions(l, c.lockOpts...)
	}
	if err != nil {
		panic(fmt.Errorf("consume: New: %w", err))
	}
	return c
}
