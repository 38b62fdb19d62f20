package redisserver

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// All functions of C programs for the time of day follow the clock, and the monotonic clock does not.
func TestAClockChangesOnlyTheTimeOfDay(t *testing.T) {
	const year = 365 * 24 * time.Hour
	s, err := StartClocked(t.Context(), 0)
	switch {
	case (errors.Is(err, ErrNotInstalled) || errors.Is(err, ErrNoClock)) && os.Getenv("LOCKMW_REQUIRE_REDIS") != "1":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	defer s.Close()
	program := filepath.Join(t.TempDir(), "clocks")
	if out, err := exec.CommandContext(t.Context(), compiler, "-o", program, "testdata/clocks.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var ahead time.Duration
	for _, step := range []time.Duration{0, year, -2 * year, year - 1500*time.Millisecond, 500 * time.Millisecond} {
		s.StepClock(step)
		ahead += step
		now := time.Now()
		var monotonic unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = s.env
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var got [5]int64 // the fourth value is in whole seconds
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatal(err)
		}
		took := time.Since(now)
		const coarse = 200 * time.Millisecond // the kernel's coarse clock advances within this time, also on a busy machine
		for i, from := range []int64{now.UnixNano(), now.UnixNano(), now.UnixNano(), now.UnixNano(), monotonic.Nano()} {
			late := time.Duration(got[i]-from) - ahead
			least, most := -coarse, took
			switch i {
			case 3:
				least -= time.Second
			case 4:
				late += ahead
			}
			if late < least || late > most {
				t.Errorf("%v ahead, function %d: %v off", ahead, i, late)
			}
		}
	}
}

func TestWithoutACompilerThereIsNoClock(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := buildClock(); !errors.Is(err, ErrNoClock) {
		t.Errorf("the error is %v", err)
	}
}
