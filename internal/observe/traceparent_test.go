package observe_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/observe"
)

const valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestATraceParentIsRead(t *testing.T) {
	for text, want := range map[string]byte{
		valid:             observe.FlagSampled,
		valid[:53] + "00": 0,
		valid[:53] + "02": observe.FlagRandom,
		valid[:53] + "03": observe.FlagSampled | observe.FlagRandom,
		valid[:53] + "fc": 0, // version 00 defines no others
		valid[:53] + "ff": observe.FlagSampled | observe.FlagRandom,
		valid[:53] + "80": 0,
	} {
		p, ok := observe.ParseTraceParent(text)
		if !ok || p.Flags != want || hex.EncodeToString(p.TraceID[:]) != text[3:35] || hex.EncodeToString(p.SpanID[:]) != text[36:52] {
			t.Errorf("%s: %+v, %t", text, p, ok)
		}
		if again, ok := observe.ParseTraceParent(p.String()); !ok || again != p {
			t.Errorf("%s is written %q", text, p)
		}
	}
}

func TestWhatIsNoTraceParentIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty":                "",
		"garbage":              "garbage",
		"right length":         strings.Repeat("x", 55),
		"no trace":             "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"no span":              "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"upper case":           strings.ToUpper(valid),
		"flags in upper case":  valid[:53] + "0A",
		"version to come":      "01" + valid[2:],
		"version ff":           "ff" + valid[2:],
		"dashes":               strings.ReplaceAll(valid, "-", "_"),
		"first dash":           valid[:2] + "_" + valid[3:],
		"second dash":          valid[:35] + "_" + valid[36:],
		"last dash":            valid[:52] + "_" + valid[53:],
		"no digit in trace":    valid[:10] + "g" + valid[11:],
		"no digit in span":     valid[:40] + "\n" + valid[41:],
		"flags":                valid[:53] + "+1",
		"above the digits":     valid[:53] + "0:",
		"below the digits":     valid[:53] + "0/",
		"more":                 valid + "-more",
		"less":                 valid[:54],
		"line feed":            valid[:54] + "\n",
		"very long":            strings.Repeat(valid, 1000),
		"not UTF-8":            strings.Repeat("\xff", 55),
		"a character at a cut": valid[:53] + "é",
	} {
		if p, ok := observe.ParseTraceParent(text); ok || p != (observe.TraceParent{}) {
			t.Errorf("%s: %+v, %t", name, p, ok)
		}
	}
}

func TestATraceParentIsWrittenWithKnownFlagsOnly(t *testing.T) {
	p, _ := observe.ParseTraceParent(valid)
	p.Flags = 0xff
	if got, want := p.String(), valid[:53]+"03"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for name, p := range map[string]observe.TraceParent{
		"nothing": {}, "no span": {TraceID: p.TraceID}, "no trace": {SpanID: p.SpanID},
	} {
		if got := p.String(); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func FuzzParseTraceParent(f *testing.F) {
	f.Add(valid)
	f.Add(valid[:53] + "fF")
	f.Add(valid[:54] + "é")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := observe.ParseTraceParent(text)
		if ok && (p.String()[:53] != text[:53] || p.String() == "") {
			t.Errorf("%q is written %q", text, p)
		}
	})
}
