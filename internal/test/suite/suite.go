// Package suite selects which tests run.
//
//	go test ./...                 # the quick suite, within a minute or two
//	LOCKMW_FULL=1 go test ./...   # everything; on a Cluster and behind Sentinel a sample
//	LOCKMW_FULL=1 LOCKMW_SEVERAL=1 go test ./...
//
// They are variables because a flag would fail every package that does not define it.
package suite

import (
	"os"
	"testing"
)

// Variable is the environment variable that is 1 if all tests have to run.
const Variable = "LOCKMW_FULL"

// VariableSeveral is the environment variable that is 1 if all tests that can run on several servers have to.
const VariableSeveral = "LOCKMW_SEVERAL"

// Full reports whether all tests have to run.
func Full() bool { return os.Getenv(Variable) == "1" }

// Several reports whether all tests have to run on several servers.
func Several() bool { return Full() && os.Getenv(VariableSeveral) == "1" }

// NeedsSeveral skips a test on several servers that the full suite leaves out.
func NeedsSeveral(t testing.TB, why string) {
	t.Helper()
	if !Several() {
		t.Skipf("%s: runs with %s=1", why, VariableSeveral)
	}
}

// NeedsFull skips a test that the quick suite leaves out.
func NeedsFull(t testing.TB, why string) {
	t.Helper()
	if !Full() {
		t.Skipf("%s: runs with %s=1", why, Variable)
	}
}
