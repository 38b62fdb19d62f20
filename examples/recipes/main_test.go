package recipes_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmw/go/internal/test/redistest"
)

func TestMain(m *testing.M) {
	redistest.ChildMain(childLife)
	goleak.VerifyTestMain(m)
}
