package rwlock_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/locktest"
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
	locktest.Mingle(t, locktest.Redis("write", sides), *mingleLength, seed)
}
