package protocol

import (
	"os"
	"testing"

	"github.com/lockmw/go/internal/test/suite"
)

func TestMain(m *testing.M) {
	if err := suite.SetFlags(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
