package redlock_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/locktest"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/redlock"
)

func TestMain(m *testing.M) { locktest.Main(m, env.RedisNodes(3, patientlyOver)) }

func over(nodes []*lockmw.Client) env.NodesLocker { return redlock.New(nodes) }

// patientlyOver is over with a longer node timeout, for real nodes on a busy machine.
func patientlyOver(nodes []*lockmw.Client) env.NodesLocker {
	return redlock.New(nodes, redlock.WithNodeTimeout(time.Second))
}
