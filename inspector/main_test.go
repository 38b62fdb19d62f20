package inspector_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmw/go/internal/test/suite"
)

func TestMain(m *testing.M) {
	suite.Begin()
	goleak.VerifyTestMain(patient{m})
}

// On a slow machine a request is answered before the read has ended. The handler keeps such a read for a while, for the next request.
type patient struct{ *testing.M }

// Run runs the tests and waits until all kept reads have ended, which takes at most a minute.
func (p patient) Run() int {
	code := p.M.Run()
	for began := time.Now(); code == 0 && time.Since(began) < 2*time.Minute; {
		if goleak.Find() == nil {
			break
		}
	}
	return code
}
