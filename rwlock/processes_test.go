package rwlock_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/rw"
)

var (
	mingleLength = flag.Duration("mingle", 6*time.Second, "how long TestProcessesReadAndWrite lasts")
	mingleSeed   = flag.Uint64("mingle.seed", 0, "its seed; 0: a random one")
)

func TestProcessesReadAndWrite(t *testing.T) {
	seed := *mingleSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	rw.Mingle(t, env.Redis("write", sides), *mingleLength, seed)
}
