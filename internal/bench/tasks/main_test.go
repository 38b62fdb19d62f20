package main

import (
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/bench/crew"
	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/redisserver"
)

func TestMain(m *testing.M) {
	crew.Main(work)
	leak.VerifyMain(m.Run)
}

func TestMistakesOfTheCommandLine(t *testing.T) {
	for _, tt := range []struct{ list, lock, says string }{
		{"hot,nothing,cold", "default", `"cold"`},
		{"", "never", `"never"`},
	} {
		if _, err := run(t.Context(), io.Discard, 1, tt.list, tt.lock, false); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

func TestFiguresShowWhetherTheyMeetTheirGoal(t *testing.T) {
	for _, tt := range []struct {
		f    figure
		met  bool
		says string
	}{
		{figure{"a", 1.3, []float64{1, 9, 1.3}}, true, "a\t1.30\t<= 1.3\t[1.00 9.00 1.30]"},
		{figure{"b", 1.3, []float64{1.4}}, false, "b\t1.40\t<= 1.3 missed\t[1.40]"},
		{figure{"n", 2e6, []float64{1e6}}, true, "n\t1000000.00\t<= 2000000\t[1000000.00]"}, // no exponents
		{figure{"c", 0, []float64{7}}, true, "c\t7.00\t\t[7.00]"},
	} {
		if got := tt.f.String(); got != tt.says || tt.f.isMet() != tt.met {
			t.Errorf("got %q, met %v, want %q", got, tt.f.isMet(), tt.says)
		}
	}
}

func TestTheExponentDescribesTheGrowthOfACost(t *testing.T) {
	for _, tt := range []struct {
		costs []float64
		want  float64
	}{{[]float64{7, 7, 7}, 0}, {[]float64{1, 10, 100}, 1}, {[]float64{1, 100, 10_000}, 2}, {[]float64{0, 0, 0}, 0}} {
		if got := exponent("", 0, []int{10, 100, 1000}, tt.costs).values[0]; math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%v: %v, want %v", tt.costs, got, tt.want)
		}
	}
}

func TestAQuickRunCountsScriptsOfTwoSizes(t *testing.T) {
	var out strings.Builder
	s, err := redisserver.Start(t.Context())
	if err != nil {
		t.Skip(err)
	}
	s.Close()
	missed, err := run(t.Context(), &out, 1, "parked", "default", true)
	if err != nil || missed {
		t.Errorf("missed %v, %v\n%s", missed, err, out.String())
	}
	for text, want := range map[string]bool{"100 tasks of 2 ms": true, "200 tasks": false, "exponent": true, "1 x 8": false} {
		if strings.Contains(out.String(), text) != want {
			t.Errorf("%q in the output: want %v\n%s", text, want, out.String())
		}
	}
}

func TestTasksAreEnqueuedInTheirOrder(t *testing.T) {
	all := load{hot: 4, keys: 2, others: 2, first: 1, behind: 1, work: time.Second}.payloads()
	var order []string
	for _, p := range all {
		order = append(order, p.Key)
	}
	if got := strings.Join(order, " "); got != "own0 hot0 hot1 own3 hot0 hot1 own6 own7" {
		t.Error(got)
	}
}

func TestMeasurement(t *testing.T) {
	var out strings.Builder
	s, err := redisserver.Start(t.Context())
	if err != nil {
		t.Skip(err)
	}
	s.Close()
	if _, err := run(t.Context(), &out, 1, "hot", "default", false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "1 x 8") || !strings.Contains(out.String(), "2 x 4") {
		t.Error(out.String())
	}
}
