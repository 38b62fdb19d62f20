package script

// Limits of the scripts, for tests.
const (
	MaxReaped = maxReaped
	MaxShown  = maxShown
	QueueTTL  = queueTTL
)
