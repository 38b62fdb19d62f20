package env

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"
)

// A LongRun has the flags of a random test: its length and its seed.
type LongRun struct {
	name   string
	length *time.Duration
	seed   *uint64
}

// LongRunFlags makes the flags -name and -name.seed of a random test. length is the default length.
func LongRunFlags(name string, length time.Duration) *LongRun {
	return &LongRun{
		name:   name,
		length: flag.Duration(name, length, "how long the test lasts"),
		seed:   flag.Uint64(name+".seed", 0, "seed to repeat a run; 0: random"),
	}
}

// Get returns the length and the seed, and logs the seed.
func (r *LongRun) Get(t testing.TB) (length time.Duration, seed uint64) {
	t.Helper()
	seed = *r.seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-%s.seed %d repeats this run", r.name, seed)
	return *r.length, seed
}
