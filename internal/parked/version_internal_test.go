package parked

import (
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

func TestOnlyAKnownReleaseOfAsynqIsUsedBeyondItsInterface(t *testing.T) {
	for version, known := range map[string]bool{
		"v0.26.0": true, "v0.26.3": true,
		"v0.25.9": false, "v0.27.0": false, "v0.260.0": false, "v1.0.0": false, "(devel)": false, "": false,
		"v0.26.1-0.20270101000000-0123456789ab": false, // between two releases
	} {
		err := check([]*debug.Module{{Path: "example.com/other", Version: "v1.2.3"}, {Path: Module, Version: version}})
		if (err == nil) != known || err != nil && !strings.Contains(err.Error(), version) {
			t.Errorf("%q: %v", version, err)
		}
	}
	for replacement, known := range map[debug.Module]bool{
		{Path: Module, Version: "v0.26.1"}:                   true,
		{Path: Module, Version: "v0.27.0"}:                   false,
		{Path: "example.com/fork/asynq", Version: "v0.26.0"}: false,
		{Path: "../asynq"}:                                   false,
	} {
		if err := check([]*debug.Module{{Path: Module, Version: "v0.26.0", Replace: &replacement}}); (err == nil) != known {
			t.Errorf("replaced by %+v: %v", replacement, err)
		}
	}
	if err := check(nil); err != nil {
		t.Errorf("without a record of modules: %v", err)
	}
}

// Whoever updates asynq looks at its layout, and then at Release.
func TestTheTestedReleaseIsTheRequiredOne(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(regexp.QuoteMeta(Module) + ` (\S+)`).FindSubmatch(mod)
	if found == nil {
		t.Fatal("go.mod requires no asynq")
	}
	if err := check([]*debug.Module{{Path: Module, Version: string(found[1])}}); err != nil {
		t.Error(err)
	}
}
