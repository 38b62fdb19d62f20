package asynqmw_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	workerMain()
	goleak.VerifyTestMain(m)
}
