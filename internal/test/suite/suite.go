// Package suite says how much of the tests runs.
//
//	go test ./...                 # the quick suite, within a minute or two
//	LOCKMW_FULL=1 go test ./...   # everything, but of what runs on a Cluster and over Sentinel a sample
//	LOCKMW_FULL=1 LOCKMW_SEVERAL=1 go test ./...
//
// They are variables and no flags, as a flag fails every package that does not define it.
package suite

import (
	"os"
	"testing"
)

// Variable is the environment variable that is 1 if everything is to run.
const Variable = "LOCKMW_FULL"

// VariableSeveral is the one that is 1 if on several servers everything is to run that can.
const VariableSeveral = "LOCKMW_SEVERAL"

// VariableUnraced is the one that is 1 if, of what all kinds of locks have in common, only that is to run which the full
// suite leaves out under the race detector.
const VariableUnraced = "LOCKMW_UNRACED"

// Full reports whether everything is to run.
func Full() bool { return os.Getenv(Variable) == "1" }

// Several reports whether everything is to run on several servers.
func Several() bool { return Full() && os.Getenv(VariableSeveral) == "1" }

// Unraced reports whether only what is not raced is to run of what all kinds of locks have in common.
func Unraced() bool { return os.Getenv(VariableUnraced) == "1" }

// NeedsSeveral skips a test on several servers that is left out of the full suite.
func NeedsSeveral(t testing.TB, why string) {
	t.Helper()
	if !Several() {
		t.Skipf("%s: runs with %s=1", why, VariableSeveral)
	}
}

// NeedsFull skips a test that is left out of the quick suite.
func NeedsFull(t testing.TB, why string) {
	t.Helper()
	if !Full() {
		t.Skipf("%s: runs with %s=1", why, Variable)
	}
}
