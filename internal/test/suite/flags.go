package suite

import (
	"flag"
	"os"
	"runtime/debug"
	"strconv"
)

const (
	// width is how many parallel tests run side by side: those on real servers mostly wait. What the whole suite adds uses
	// more of the processors, and its bounds of time have to hold with the race detector.
	width, quickWidth = 8, 16
	// rounds is how often the quick suite repeats tests of random operations; the whole suite has rapid's default, 100.
	rounds = 30
	// garbage is how much more memory than what lives may be garbage, in percent: embedded servers make much of it.
	garbage = 400
)

// Begin prepares the tests of a package. TestMain calls it. What the command line and the environment have set stays:
// how many tests run side by side, how many rounds those of random operations take, and how often garbage is collected. It
// panics if a flag does not take its value.
func Begin() {
	setFlags()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
}

func setFlags() {
	defaults := map[string]int{"test.parallel": width}
	const checks = "rapid.checks"
	if !Full() {
		defaults["test.parallel"] = quickWidth
		if flag.Lookup(checks) != nil {
			defaults[checks] = rounds
		}
	}
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { delete(defaults, f.Name) })
	for name, n := range defaults {
		if err := flag.Set(name, strconv.Itoa(n)); err != nil {
			panic(err)
		}
	}
}
