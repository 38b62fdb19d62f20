package suite

import (
	"flag"
	"strconv"
)

// width is how many parallel tests run side by side: those on real servers mostly wait.
const width = 8

// SideBySide sets -parallel for tests that mostly wait, unless the command line has it. TestMain calls it.
func SideBySide() error {
	const parallel = "test.parallel"
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == parallel })
	if given {
		return nil
	}
	return flag.Set(parallel, strconv.Itoa(width))
}
