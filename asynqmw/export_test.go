package asynqmw

const (
	LongHold    = longHold
	LongestStay = longestStay
)

// WithLayoutError makes handlers with this option find an asynq of an unknown version.
func WithLayoutError(err error) Option {
	l := &layout{err: err}
	return taskOption{Setting: func(c *config) error {
		c.layout = l
		return nil
	}}
}
