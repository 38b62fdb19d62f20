package env

import (
	"math/rand/v2"
	"time"

	"pgregory.net/rapid"
)

// Draw draws an index, which reads better than what it stands for.
func Draw[T any](t *rapid.T, what string, from []T) T {
	return from[rapid.IntRange(0, len(from)-1).Draw(t, what)]
}

// Between draws a duration from the one up to the other.
func Between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)))
}
