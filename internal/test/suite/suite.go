// Package suite says how much of the tests runs.
//
//	go test ./...                 # the quick suite, within a minute or two
//	LOCKMW_FULL=1 go test ./...   # everything
//
// It is a variable and no flag, as a flag fails every package that does not define it.
package suite

import (
	"os"
	"testing"
)

// Variable is the environment variable that is 1 if everything is to run.
const Variable = "LOCKMW_FULL"

// Full reports whether everything is to run.
func Full() bool { return os.Getenv(Variable) == "1" }

// NeedsFull skips a test that is left out of the quick suite.
func NeedsFull(t testing.TB, why string) {
	t.Helper()
	if !Full() {
		t.Skipf("%s: runs with %s=1", why, Variable)
	}
}
