package script_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
)

// A busy lock takes the fast paths. The test counts the commands on the server for one more caller and for one hand-over.
func TestABusyLockCostsFewCommands(t *testing.T) {
	for _, c := range []struct {
		name  string
		queue []string // who waits before
		most  int64
	}{
		{"nobody waits", nil, 27},
		{"others wait", []string{"b", "c"}, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := scripttest.New(t, redistest.Lent(t).NewClient(t), t.Name())
			d.Lock("z") // so that the scripts are known
			d.Release("z")
			d.Lock("a")
			for _, id := range c.queue {
				d.Fair(id)
			}
			before := commandsOf(t, d)
			d.Fair("d")
			d.Release("a")
			if n := commandsOf(t, d) - before - 1; n > c.most { // and the one that counts
				t.Errorf("%d commands, want %d at most", n, c.most)
			} else {
				t.Logf("%d commands", n)
			}
			d.WantHolder(append(c.queue, "d")[0])
		})
	}
}

// commandsOf returns how many commands the server has run, also within scripts.
func commandsOf(t *testing.T, d *scripttest.Driver) (calls int64) {
	t.Helper()
	info, err := d.Redis.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		_, after, _ := strings.Cut(line, "calls=")
		number, _, _ := strings.Cut(after, ",")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			calls += n
		}
	}
	return calls
}
