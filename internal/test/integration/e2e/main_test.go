package e2e_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/redistest"
)

func TestMain(m *testing.M) {
	redistest.ChildMain(childSpec.run)
	leak.VerifyMain(m.Run)
}
