package locktest

import (
	"flag"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// width is how many scenarios on a real server run side by side: they mostly wait.
const width = 8

// Main is the TestMain of packages that call Run. Its Configs are those whose Lockers child processes
// are to make.
func Main(m *testing.M, configs ...Config) {
	ChildMain(configs...)
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
