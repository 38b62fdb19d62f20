package locklog_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/locklog"
	"github.com/lockmw/go/lockmw"
)

// tables returns the lines of the package comment that are indented, by the heading above.
func tables(t *testing.T) map[string][]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	found, heading := make(map[string][]string), ""
	for text := range strings.Lines(file.Doc.Text()) {
		text = strings.TrimRight(text, "\n")
		if h, ok := strings.CutPrefix(text, "# "); ok {
			heading = h
		} else if row, ok := strings.CutPrefix(text, "\t"); ok {
			found[heading] = append(found[heading], row)
		}
	}
	return found
}

var columns = regexp.MustCompile(` {2,}`)

// everything has an observer say all that it can, and returns the lines.
func everything(t *testing.T) (lines []line) {
	synctest.Test(t, func(t *testing.T) { lines = inBubble(t) })
	return lines
}

func inBubble(t *testing.T) []line {
	j := newJournal(t, locklog.WithSlowWait(time.Nanosecond), locklog.WithLongHold(time.Nanosecond))
	seen := lockmw.Contention{
		Position: 2, Waiters: 3,
		Holders: []lockmw.Holder{{Owner: "o", Label: "l", Process: "p", TraceParent: valid, Token: 1, Since: time.Now()}},
	}
	_, hold := usertest.Lock(t, t.Context(), lockmw.NewLocal(), "item:7") // for its token
	attempt := func(g *lockmw.Acquisition) *usertest.Script {
		s := newScript(j.observer)
		s.Policy.Label = "req-7"
		s.Contended(seen)
		time.Sleep(2 * time.Nanosecond)
		if g != nil {
			s.Acquired(*g)
			time.Sleep(time.Nanosecond)
		}
		return s
	}
	held := &lockmw.Acquisition{Hold: hold, Waited: time.Second}
	attempt(nil).Failed(&lockmw.Error{Err: lockmw.ErrBusy})
	for _, pause := range []time.Duration{0, 0, loglimit.Interval} {
		time.Sleep(pause)
		attempt(nil).Failed(&lockmw.Error{Err: lockmw.ErrUnavailable})
		attempt(&lockmw.Acquisition{FailedOpen: lockmw.ErrUnavailable})
	}
	attempt(held).Released(lockmw.Release{Held: time.Minute})
	attempt(held).Released(lockmw.Release{Err: lockmw.ErrUnavailable})
	attempt(held).Lost(lockmw.ErrLost)
	attempt(held).Renewed(lockmw.ErrUnavailable)
	attempt(held).Renewed(nil)
	return j.lines()
}

func TestTheTableOfMessagesIsWhatIsLogged(t *testing.T) {
	logged := make(map[string]bool)
	for _, l := range everything(t) {
		logged[fmt.Sprint(l[slog.LevelKey], " ", l.message())] = true
	}
	documented := make(map[string]bool)
	for _, row := range tables(t)["Messages"] {
		cells := columns.Split(row, -1)
		if len(cells) != 3 {
			t.Fatalf("%q has %d columns", row, len(cells))
		}
		documented[cells[0]+" "+cells[1]] = true
	}
	if !maps.Equal(logged, documented) {
		t.Errorf("logged:     %q\ndocumented: %q", sorted(logged), sorted(documented))
	}
}

func TestTheTableOfAttributesIsWhatIsLogged(t *testing.T) {
	logged := make(map[string]bool)
	messages := make(map[string]bool)
	for _, l := range everything(t) {
		message := strings.TrimPrefix(l.message(), "lockmw: ")
		messages[message] = true
		for name := range l {
			if strings.Contains(name, ".") {
				logged[name+": "+message] = true
			}
		}
	}
	waits, holds := []string{"still waiting", "slow wait", "lock failed", "failed open"}, []string(nil)
	for m := range messages {
		if !slices.Contains(waits, m) {
			holds = append(holds, m)
		}
	}
	// expand returns the messages that a cell names.
	expand := func(cell string) (named []string) {
		for part := range strings.SplitSeq(cell, ", ") {
			switch part {
			case "all":
				named = append(append(named, waits...), holds...)
			case "waits":
				named = append(named, waits...)
			case "holds":
				named = append(named, holds...)
			default:
				if !messages[part] {
					t.Errorf("there is no message %q", part)
				}
				named = append(named, part)
			}
		}
		return named
	}
	documented := make(map[string]bool)
	for _, row := range tables(t)["Attributes"] {
		cells := columns.Split(row, -1)
		if len(cells) != 3 {
			t.Fatalf("%q has %d columns", row, len(cells))
		}
		with, without, excepted := strings.Cut(cells[1], " but ")
		for _, m := range expand(with) {
			if !excepted || !slices.Contains(expand(without), m) {
				documented[cells[0]+": "+m] = true
			}
		}
	}
	if !maps.Equal(logged, documented) {
		t.Errorf("logged:\n%s\ndocumented:\n%s", strings.Join(sorted(logged), "\n"), strings.Join(sorted(documented), "\n"))
	}
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
