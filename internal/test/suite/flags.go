package suite

import (
	"flag"
	"strconv"
)

const (
	// width is how many parallel tests run side by side: those on real servers mostly wait.
	width = 8
	// rounds is how often the quick suite repeats tests of random operations; the whole suite has rapid's default, 100.
	rounds = 30
)

// SetFlags sets what the command line has not set: how many tests run side by side, and how many rounds those of random
// operations take. TestMain calls it. It panics if a flag does not take its value.
func SetFlags() {
	defaults := map[string]int{"test.parallel": width}
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
