package engine

import (
	"os"
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

func TestMain(m *testing.M) {
	suite.Begin()
	os.Exit(redistest.Lend(m).Run())
}
