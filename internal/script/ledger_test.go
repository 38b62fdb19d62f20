package script_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
)

// TestShortWaysAreWorthTheirLines measures the savings of the fast paths, for the performance ledger. A fast path that saves
// the server 3 % or less is to be removed.
func TestShortWaysAreWorthTheirLines(t *testing.T) {
	if os.Getenv("LOCKMW_MEASURE") == "" {
		t.Skip("measures for a minute, and is rough while the machine does something else: runs with LOCKMW_MEASURE=1")
	}
	permit := func(d *scripttest.Driver, id string) { d.AcquirePermit(scripttest.Permit{ID: id, N: 1}) }
	vote := core.Vote{Tokens: 1}
	for _, m := range []struct {
		what  string
		begin func(d *scripttest.Driver) // before the first turn, in which "0" has the lock
		turn  func(d *scripttest.Driver, now, next string)
	}{
		{"takes a free lock and releases it", func(d *scripttest.Driver) { d.Lock("0"); d.Release("0") },
			func(d *scripttest.Driver, _, next string) { d.Lock(next); d.Release(next) }},
		{"takes a vote and releases it", func(*scripttest.Driver) {},
			func(d *scripttest.Driver, _, next string) {
				d.Acquire(scripttest.Acquire{ID: next, Vote: &vote})
				d.Release(next)
			}},
		{"queues behind one holder, which releases", func(d *scripttest.Driver) { d.Fair("0") },
			func(d *scripttest.Driver, now, next string) { d.Fair(next); d.Release(now) }},
		{"queues and is cancelled", func(d *scripttest.Driver) { d.Fair("0") },
			func(d *scripttest.Driver, _, next string) { d.Fair(next); d.Cancel(next) }},
		{"queues for a taken semaphore, and another releases", func(d *scripttest.Driver) { permit(d, "0") },
			func(d *scripttest.Driver, now, next string) { permit(d, next); d.ReleasePermit(now) }},
	} {
		with, without := scriptTime(t, false, m.begin, m.turn), scriptTime(t, true, m.begin, m.turn)
		t.Logf("%-52s %5.1f µs with short ways, %5.1f µs without", m.what, with, without)
		if with > 0.97*without {
			t.Errorf("a call that %s gains nothing from the fast path", m.what)
		}
	}
}

// scriptTime returns how long the server's scripts take for a turn (µs): the least mean of several rounds.
func scriptTime(t *testing.T, thorough bool, begin func(*scripttest.Driver), turn func(d *scripttest.Driver, now, next string)) float64 {
	t.Helper()
	const rounds, turns = 100, 50
	rdb := redistest.Lent(t).NewClient(t)
	d := scripttest.New(t, rdb, "item:1")
	if thorough {
		d.Thoroughly()
	}
	begin(d)
	last, best := 0, 0.0
	for range rounds {
		rdb.ConfigResetStat(t.Context())
		for range turns {
			turn(d, strconv.Itoa(last), strconv.Itoa(last+1))
			last++
		}
		if mean := microsOfScripts(t, rdb.Info(t.Context(), "commandstats").Val()) / turns; best == 0 || mean < best {
			best = mean
		}
	}
	return best
}

// microsOfScripts returns the time spent in scripts, by the answer to INFO commandstats.
func microsOfScripts(t *testing.T, stats string) (micros float64) {
	t.Helper()
	for line := range strings.Lines(stats) {
		var usec float64
		for _, name := range []string{"eval", "evalsha"} {
			if !strings.HasPrefix(line, "cmdstat_"+name+":") {
				continue
			}
			_, rest, _ := strings.Cut(line, "usec=")
			if _, err := fmt.Sscanf(rest, "%g,", &usec); err != nil {
				t.Fatal(err)
			}
			micros += usec
		}
	}
	return micros
}
