package rwlock_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/rw"
	"github.com/lockmw/go/internal/test/suite"
)

var mingling = env.LongRunFlags("mingle", 6*time.Second)

func TestProcessesReadAndWrite(t *testing.T) {
	suite.NeedsFull(t, "it takes ten seconds")
	t.Parallel()
	length, seed := mingling.Get(t)
	rw.Mingle(t, env.Redis("write", sides), length, seed)
}
