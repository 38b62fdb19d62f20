package main

import (
	"strings"
	"testing"
	"time"
)

func TestOnlyADirectSwitchHasOverlaps(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, "", time.Second); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(mixtures) {
		t.Fatalf("the output is\n%s", out.String())
	}
	for i, line := range lines {
		if overlaps := !strings.HasSuffix(line, " 0 at the same time"); overlaps != mixtures[i].wrong {
			t.Errorf("%s", line)
		}
		if strings.Contains(line, " 0 sold") {
			t.Errorf("nothing is sold: %s", line)
		}
	}
}
