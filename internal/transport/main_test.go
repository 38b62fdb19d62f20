package transport_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

func TestMain(m *testing.M) {
	redistest.ChildMain(explain)
	suite.Begin()
	leak.VerifyMain(redistest.Lend(m.Run))
}
