package asynqmw

// WithLayoutError makes handlers with the option find that asynq keeps its tasks in an unknown way.
func WithLayoutError(err error) Option {
	l := &layout{err: err}
	return taskOption{apply: func(c *config) error {
		c.layout = l
		return nil
	}}
}
