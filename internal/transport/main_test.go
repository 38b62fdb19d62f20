package transport_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

func TestMain(m *testing.M) {
	suite.Begin()
	goleak.VerifyTestMain(redistest.Lend(m))
}
