package recipes_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

func TestMain(m *testing.M) {
	redistest.ChildMain(childLife)
	suite.Begin()
	goleak.VerifyTestMain(m)
}
