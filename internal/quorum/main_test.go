package quorum_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/suite"
)

func TestMain(m *testing.M) {
	suite.Begin()
	leak.VerifyMain(m.Run)
}
