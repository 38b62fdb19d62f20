package protocol

import (
	"os"
	"testing"

	"github.com/lockmw/go/internal/test/suite"
)

func TestMain(m *testing.M) {
	suite.SetFlags()
	os.Exit(m.Run())
}
