package judge

import (
	"strings"
	"testing"
	"time"
)

func TestArrivals(t *testing.T) {
	const ms = time.Millisecond
	first := Arrival{Key: "k", Asked: 1 * ms, Queued: 5 * ms, Granted: 50 * ms, Token: 9}
	for name, test := range map[string]struct {
		other Arrival
		want  string // part of the only violation; "" if there is none
	}{
		"in order":                        {Arrival{Key: "k", Asked: 8 * ms, Queued: 9 * ms, Granted: 60 * ms, Token: 10}, ""},
		"a call that asks later":          {Arrival{Key: "k", Asked: 8 * ms, Queued: 9 * ms, Granted: 40 * ms, Token: 8}, "token 8 went to a call that began 3ms after the call of token 9 was queued"},
		"… although it never waited":      {Arrival{Key: "k", Asked: 8 * ms, Granted: 9 * ms, Token: 8}, "token 8 went"},
		"a call that asks before that":    {Arrival{Key: "k", Asked: 4 * ms, Queued: 9 * ms, Granted: 40 * ms, Token: 8}, ""},
		"another key":                     {Arrival{Key: "other", Asked: 8 * ms, Queued: 9 * ms, Granted: 40 * ms, Token: 8}, ""},
		"a call that the first overtakes": {Arrival{Key: "k", Queued: 500, Granted: 60 * ms, Token: 10}, "token 9 went"},
		"… but may have lost its place":   {Arrival{Key: "k", Queued: 500, Granted: 60 * ms, Token: 10, Excused: true}, ""},
		"… or was perhaps not queued":     {Arrival{Key: "k", Granted: 60 * ms, Token: 10}, ""},
	} {
		for _, calls := range [][]Arrival{{first, test.other}, {test.other, first}} {
			a := NewArrivals()
			var got []Violation
			for _, c := range calls {
				got = append(got, a.Add(c)...)
			}
			switch {
			case test.want == "" && len(got) > 0:
				t.Errorf("%s: found %q", name, got)
			case test.want != "" && (len(got) != 1 || got[0].Kind != Overtaken || !strings.Contains(got[0].Text, test.want)):
				t.Errorf("%s: found %q, want one with %q", name, got, test.want)
			}
		}
	}
}

func TestArrivalsAreDropped(t *testing.T) {
	a := NewArrivals()
	for i := range 3 * keptArrivals {
		a.Add(Arrival{Key: "k", Granted: time.Duration(i), Token: int64(i)})
	}
	if n := len(a.recent["k"]); n != keptArrivals {
		t.Errorf("%d calls are kept", n)
	}
}
