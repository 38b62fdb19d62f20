package fairlock_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmw/go/internal/test/locktest"
)

func TestMain(m *testing.M) {
	locktest.ChildMain(locktest.Redis("fair", fair))
	goleak.VerifyTestMain(m)
}
