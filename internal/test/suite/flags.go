package suite

import (
	"flag"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/lockmw/go/internal/test/race"
)

const (
	// width is how many parallel tests of the quick suite run at a time: on real servers they mostly wait.
	width = 16
	// busyWidth is how many run at a time that hardly wait, as do all tests of the full suite or under the race detector. With
	// more, each would take longer than its leases.
	busyWidth = 4
	// rounds is how often the quick suite repeats tests of random operations; the full suite uses rapid's default, 100.
	rounds = 30
	// garbage is how much garbage there may be in relation to live memory, in percent: embedded servers make much of it.
	garbage = 400
)

// Begin prepares the tests of a package. TestMain calls it. It sets how many tests run in parallel, how many rounds tests of
// random operations take, and how often garbage is collected, unless the command line or the environment does. It panics if a
// flag rejects its value.
func Begin() {
	if Full() || race.Enabled {
		begin(busyWidth)
	} else {
		begin(width)
	}
}

// BeginBusy is Begin for a package whose tests hardly wait. Few of them run in parallel.
func BeginBusy() { begin(busyWidth) }

func begin(parallel int) {
	setFlags(parallel)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
}

func setFlags(parallel int) {
	defaults := map[string]int{"test.parallel": parallel}
	const checks = "rapid.checks"
	if !Full() && flag.Lookup(checks) != nil {
		defaults[checks] = rounds
	}
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { delete(defaults, f.Name) })
	for name, n := range defaults {
		if err := flag.Set(name, strconv.Itoa(n)); err != nil {
			panic(err)
		}
	}
}
