package core

import "github.com/redis/go-redis/v9"

// A Backend is where the locks of a Locker live, for packages that keep something of their own beside them.
type Backend struct {
	Redis  redis.UniversalClient
	Holder func(key string) string // the Redis key that exists while the lock of key is held
	Shared bool                    // several may hold the lock at the same time
	Closed <-chan struct{}         // closed when the locks are
}
