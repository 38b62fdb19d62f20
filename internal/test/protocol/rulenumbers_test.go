package protocol

import (
	"math/bits"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// page has the rules.
const page = "../../../docs/protocol.md"

var (
	heading  = regexp.MustCompile(`(?m)^### (\d+)\. `)
	citation = regexp.MustCompile(`\brule (\d+)\b`)
	ruleLine = regexp.MustCompile(`(?m)^\t(\w+)( +rule = 1 << iota)? +// rule \d+: `)
)

func TestCitedRulesExist(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	exists := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		exists[m[1]] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range citation.FindAllStringSubmatch(string(source), -1) {
			if !exists[m[1]] {
				t.Errorf("%s cites rule %s, which is not in %s", file, m[1], page)
			}
		}
	}
}

func TestEachSwitchHasItsRule(t *testing.T) {
	source, err := os.ReadFile("rules_test.go")
	if err != nil {
		t.Fatal(err)
	}
	n := len(ruleLine.FindAllString(string(source), -1))
	if all := bits.Len64(uint64(allRules)); n != all {
		t.Errorf("%d of %d switches have the number of a rule", n, all)
	}
}
