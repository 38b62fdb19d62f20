package script_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

func TestWhatIsStoredAboutAHolderIsReadAgain(t *testing.T) {
	const owner = "5cdca4dba8204ec95c25332661553846"
	for field, a := range map[string]script.HolderInfo{
		owner:                   {Owner: owner},
		owner + ";fixed":        {Owner: owner, Fixed: true},
		owner + ";min=60000":    {Owner: owner, MinHold: time.Minute},
		owner + ";place=task:7": {Owner: owner, Place: "task:7"},
		owner + ";place=a%20b%3Bfixed%0A%25;label=c": {
			Owner: owner, Place: "a b;fixed\n%", Label: "c",
		},
		owner + ";label=a;fixed": {Owner: owner, Label: "a;fixed"},
		owner + ";fixed;min=1000;label=web-1/42": {
			Owner: owner, Fixed: true, MinHold: time.Second, Label: "web-1/42",
		},
		owner + ";fixed;min=1500": {Owner: owner, Fixed: true, MinHold: 1500 * time.Millisecond},
	} {
		if got := a.String(); got != field {
			t.Errorf("%+v is stored as %q, want %q", a, got, field)
		}
		if got := script.ParseHolderInfo(field); got != a {
			t.Errorf("%q is read as %+v, want %+v", field, got, a)
		}
	}
}

func TestWhatAStrangerStoredAboutAHolderDoesNoHarm(t *testing.T) {
	for field, want := range map[string]script.HolderInfo{
		"":                                  {},
		";":                                 {},
		"o;label=":                          {Owner: "o"},
		"o;label=a b\n":                     {Owner: "o", Label: "a_b_"},
		"-o;min=1":                          {Owner: "o", Lingers: true, MinHold: time.Millisecond},
		"o;place=;fixed":                    {Owner: "o", Fixed: true},
		"o;place=%zz;fixed":                 {Owner: "o", Fixed: true},
		"o;;later=1;fixed":                  {Owner: "o", Fixed: true},
		"o;min=-1;min=x;min=":               {Owner: "o"},
		"o;min=9223372036854775807":         {Owner: "o"},
		"o;min=99999999999999999999999;min": {Owner: "o"},
	} {
		if got := script.ParseHolderInfo(field); got != want {
			t.Errorf("%q is read as %+v, want %+v", field, got, want)
		}
	}
}

func TestARestOfAMinimumHoldIsNeverLongerThanTheHold(t *testing.T) {
	since := time.UnixMicro(1795358195100824)
	for now, want := range map[time.Time]time.Duration{
		since.Add(-time.Hour):        time.Minute, // the server's clock was set back
		since:                        time.Minute,
		since.Add(20 * time.Second):  40 * time.Second,
		since.Add(2 * time.Minute):   0,
		time.UnixMicro(-1 << 63):     time.Minute,
		time.UnixMicro(1<<63 - 1<<9): 0,
	} {
		h := core.Holder{Since: since}
		if script.DescribeHolder(&h, "o;min=60000", now); h.MinRest != want {
			t.Errorf("%v after the grant: %v, want %v", now.Sub(since), h.MinRest, want)
		}
	}
}
