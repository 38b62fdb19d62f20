package rwlock_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/rw"
)

var mingling = env.LongRunFlags("mingle", 6*time.Second)

func TestProcessesReadAndWrite(t *testing.T) {
	t.Parallel()
	length, seed := mingling.Get(t)
	rw.Mingle(t, env.Redis("write", sides), length, seed)
}
