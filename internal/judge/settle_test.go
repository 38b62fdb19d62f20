package judge

import (
	"testing"
	"time"
)

const s = time.Second

// permit reports a permit of a semaphore of 3, which ends at its deadline.
func permit(token int64, weight int, asked, at, deadline time.Duration) Report {
	return Report{Event: Granted, Key: "k", Token: token, Asked: asked, At: at, Deadline: deadline, Weight: weight, Permits: 3}
}

func TestPermitsAcrossProcesses(t *testing.T) {
	for name, test := range map[string]struct {
		reports []Report
		want    Kind // of the only violation; "" if there is none
	}{
		"as many as there are":             {[]Report{permit(1, 2, 0, 1*s, 9*s), permit(2, 1, 0, 2*s, 9*s)}, ""},
		"one more":                         {[]Report{permit(1, 2, 0, 1*s, 9*s), permit(2, 2, 0, 2*s, 9*s)}, Overlap},
		"one more after a lease":           {[]Report{permit(1, 2, 0, 1*s, 2*s), permit(2, 2, 0, 2*s, 9*s)}, ""},
		"tokens in another order":          {[]Report{permit(2, 1, 0, 1*s, 9*s), permit(1, 1, 0, 2*s, 9*s)}, ""},
		"a smaller token of a later call":  {[]Report{permit(2, 1, 0, 1*s, 9*s), permit(1, 1, 2*s, 3*s, 9*s)}, Tokens},
		"a token that is granted twice":    {[]Report{permit(2, 1, 0, 1*s, 9*s), permit(2, 1, 0, 2*s, 9*s)}, Tokens},
		"a grant that is known at its end": {[]Report{permit(1, 3, 0, 1*s, 9*s), permit(2, 3, 0, 4*s, 4*s)}, ""},
	} {
		all := NewSpans()
		for _, report := range test.reports {
			all.Report(nil, report)
		}
		got := all.Settle(100 * s)
		if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || got[0].Kind != test.want) {
			t.Errorf("%s: found %q, want %q", name, got, test.want)
		}
	}
}

func TestSettleFindsEachViolationOnce(t *testing.T) {
	grant := func(token int64, at, deadline time.Duration) Report {
		return Report{Event: Granted, Key: "k", Token: token, At: at, Deadline: deadline}
	}
	all := NewSpans()
	all.Report(nil, grant(5, 1*s, 30*s)) // it is kept for later holds
	all.Report(nil, grant(6, 2*s, 3*s))
	all.Report(nil, grant(7, 40*s, 50*s))
	if got := all.Settle(2 * s); len(got) > 0 {
		t.Errorf("before the second grant: %q", got)
	}
	if got := all.Settle(10 * s); len(got) != 1 || got[0].Kind != Overlap || got[0].At != 2*s {
		t.Errorf("after the second grant: %q", got)
	}
	for _, before := range []time.Duration{25 * s, 55 * s} {
		if got := all.Settle(before); len(got) > 0 {
			t.Errorf("once more: %q", got)
		}
	}
	all.Report(nil, grant(4, 60*s, 70*s))
	if got := all.Settle(65 * s); len(got) != 1 || got[0].Kind != Tokens {
		t.Errorf("a token that fell: %q", got)
	}
}

func TestSettleDropsCheckedHolds(t *testing.T) {
	all := NewSpans()
	for i := range 1000 {
		at := time.Duration(i) * s
		all.Report(nil, Report{Event: Granted, Key: "k", Token: int64(i + 1), At: at, Deadline: at + s})
		if i%10 == 0 {
			all.Settle(at)
		}
	}
	if n := len(all.keys["k"]); n > 20 {
		t.Errorf("%d of 1000 holds are kept", n)
	}
}
