package cronmw_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/leak"
)

func TestMain(m *testing.M) { leak.VerifyMain(m.Run) }
