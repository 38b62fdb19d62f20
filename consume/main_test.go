package consume_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmw/go/internal/test/suite"
)

func TestMain(m *testing.M) {
	suite.Begin()
	goleak.VerifyTestMain(m)
}
