package redlock_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/locktest"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/redlock"
)

func TestMain(m *testing.M) { locktest.Main(m, env.RedisNodes(3, over)) }

func over(nodes []*lockmw.Client) (env.NodesLocker, error) { return redlock.New(nodes) }
