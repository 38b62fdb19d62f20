package locktest

import (
	"flag"
	"maps"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/fair"
	"github.com/lockmw/go/internal/test/locktest/rw"
	"github.com/lockmw/go/internal/test/locktest/soak"
)

// width is how many scenarios on a real server run side by side: they mostly wait.
const width = 8

// Main is the TestMain of packages that call Run. Its Configs are those whose Lockers child processes
// are to make.
func Main(m *testing.M, configs ...env.Config) {
	env.ChildMain(roles(), configs)
	if err := sideBySide(); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// sideBySide is -parallel, unless the command line has it.
func sideBySide() error {
	const parallel = "test.parallel"
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == parallel })
	if given {
		return nil
	}
	return flag.Set(parallel, strconv.Itoa(width))
}

// roles are what the child processes of the scenarios can be.
func roles() env.Roles {
	all := make(env.Roles)
	for _, some := range []env.Roles{env.HolderRoles, fair.Roles, rw.Roles, soak.Roles} {
		maps.Copy(all, some)
	}
	return all
}
