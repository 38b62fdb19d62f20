package report

import (
	"strings"
	"testing"
)

func TestTheVerdictIsAboutWaysThatWereRun(t *testing.T) {
	skipped := Row{Name: "memcached", Kept: true, Skipped: "memcached is not installed"}
	for name, tt := range map[string]struct {
		ways     []Row
		has, not string
	}{
		"none was run":    {[]Row{skipped}, "Not run: memcached.", "as expected"},
		"one was skipped": {[]Row{skipped, {Name: "none"}}, "Not run: memcached.\nEvery way that ran behaved as expected.", "broken"},
		"all were run":    {[]Row{{Name: "none"}}, "Every way that ran behaved as expected.", "Not run"},
	} {
		var b strings.Builder
		(&Report{Ways: tt.ways}).writeVerdict(&b)
		if got := b.String(); !strings.Contains(got, tt.has) || strings.Contains(got, tt.not) {
			t.Errorf("%s: the verdict is %q", name, got)
		}
	}
}
