package env

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"
)

// A LongRun is how long a random test lasts, and its seed, as two flags say.
type LongRun struct {
	name   string
	length *time.Duration
	seed   *uint64
}

// LongRunFlags makes the flags -name and -name.seed of a random test, which lasts for usual unless they say otherwise.
func LongRunFlags(name string, usual time.Duration) *LongRun {
	return &LongRun{
		name:   name,
		length: flag.Duration(name, usual, "how long the test lasts"),
		seed:   flag.Uint64(name+".seed", 0, "repeats a run; 0: a seed of its own"),
	}
}

// Get returns the length and the seed, which it logs.
func (r *LongRun) Get(t testing.TB) (length time.Duration, seed uint64) {
	t.Helper()
	seed = *r.seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-%s.seed %d repeats this run", r.name, seed)
	return *r.length, seed
}
