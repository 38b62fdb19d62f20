package httpmw_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmw/go/internal/test/suite"
)

func TestMain(m *testing.M) {
	if err := suite.SetFlags(); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
