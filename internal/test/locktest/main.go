package locktest

import (
	"maps"
	"testing"

	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/fair"
	"github.com/lockmw/go/internal/test/locktest/rw"
	"github.com/lockmw/go/internal/test/locktest/soak"
	"github.com/lockmw/go/internal/test/suite"
)

// Main is the TestMain of packages that call Run. Child processes make the Lockers of configs.
func Main(m *testing.M, configs ...env.Config) {
	env.ChildMain(roles(), configs)
	suite.Begin()
	leak.VerifyMain(m.Run)
}

// roles returns the roles of child processes.
func roles() env.Roles {
	all := make(env.Roles)
	for _, some := range []env.Roles{env.HolderRoles, fair.Roles, rw.Roles, soak.Roles} {
		maps.Copy(all, some)
	}
	return all
}
