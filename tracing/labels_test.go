package tracing_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

func TestTheFirstThousandNamesAreKept(t *testing.T) {
	named := make(map[string]int) // how often the spans of a name had to be named
	m := newTelemetry(t, tracing.WithSpanNameFormatter(func(span, name string) string {
		named[name]++
		return span + " " + name
	}))
	use := func(name string) {
		a := lockmw.Attempt{Key: "item:7", Name: name, Op: "lock", Mode: "exclusive"}
		m.observer.Failed(m.observer.Start(t.Context(), a), a, lockmw.ErrBusy)
	}
	for range 2 {
		for i := range 1001 {
			use(strconv.Itoa(i))
		}
	}
	for i := range 1000 {
		if name := strconv.Itoa(i); named[name] != named["0"] {
			t.Fatalf("the spans of name %s were named %d times, those of the first one %d times", name, named[name], named["0"])
		}
	}
	if first, beyond := named["0"], named["1000"]; first != 2 || beyond != 4 {
		t.Errorf("formatted %d span names of a name in use and %d of one too many, want 2 and again each time", first, beyond)
	}
	if n := strings.Count(strings.Join(m.names(), "\n"), "acquire_lock 1000"); n != 2 {
		t.Errorf("%d spans of a name too many, want 2", n)
	}
}
