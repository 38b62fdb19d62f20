package locklog_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/locklog"
	"github.com/lockmw/go/lockmw"
)

// The messages, as doc.go has them.
const (
	stillWaiting  = "lockmw: still waiting"
	slowWait      = "lockmw: slow wait"
	failed        = "lockmw: lock failed"
	failedOpen    = "lockmw: failed open"
	stillHeld     = "lockmw: still held"
	longHold      = "lockmw: long hold"
	renewalFailed = "lockmw: renewal failed"
	releaseFailed = "lockmw: release failed"
	lockLost      = "lockmw: lock lost"
)

// A journal keeps what was logged as JSON.
type journal struct {
	t        *testing.T
	observer *lockmw.Observer
	usertest.Output
}

func newJournal(t *testing.T, opts ...locklog.Option) *journal {
	return newJournalAt(t, slog.LevelInfo, opts...)
}

func newJournalAt(t *testing.T, level slog.Leveler, opts ...locklog.Option) *journal {
	j := &journal{t: t}
	j.observer = locklog.New(slog.New(slog.NewJSONHandler(j, &slog.HandlerOptions{Level: level})), opts...)
	return j
}

// A line is what a handler made of a record: "lock.name" is the name in the group lock. Numbers are
// int64.
type line map[string]any

func (l line) message() string { return l[slog.MessageKey].(string) }

// duration returns an attribute that is one, -1 if there is none.
func (l line) duration(name string) time.Duration {
	ns, ok := l[name].(int64)
	if !ok {
		return -1
	}
	return time.Duration(ns)
}

// want checks attributes; those that are nil must be missing.
func (l line) want(t *testing.T, attrs line) {
	t.Helper()
	for name, want := range attrs {
		if n, ok := want.(int); ok {
			want = int64(n)
		}
		if d, ok := want.(time.Duration); ok {
			want = int64(d)
		}
		if got := l[name]; got != want {
			t.Errorf("%s: %s is %v, want %v", l.message(), name, got, want)
		}
	}
}

// lines returns what was logged so far.
func (j *journal) lines() []line {
	j.t.Helper()
	return parse(j.t, j.String())
}

func parse(t *testing.T, text string) (lines []line) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	for {
		var record map[string]any
		switch err := decoder.Decode(&record); {
		case err == io.EOF:
			return lines
		case err != nil:
			t.Fatalf("%v in %s", err, text)
		}
		l := make(line)
		l.flatten("", record)
		lines = append(lines, l)
	}
}

func (l line) flatten(prefix string, group map[string]any) {
	for name, v := range group {
		switch v := v.(type) {
		case map[string]any:
			l.flatten(prefix+name+".", v)
		case json.Number:
			l[prefix+name], _ = v.Int64()
		default:
			l[prefix+name] = v
		}
	}
}

// messages checks what was logged and returns it.
func (j *journal) messages(want ...string) []line {
	j.t.Helper()
	lines := j.lines()
	var got []string
	for _, l := range lines {
		got = append(got, l.message())
	}
	if !slices.Equal(got, want) {
		j.t.Fatalf("logged %q, want %q:\n%s", got, want, j)
	}
	return lines
}

// local returns a Local that j observes.
func (j *journal) local(opts ...lockmw.Option) *lockmw.Local {
	return lockmw.NewLocal(append(opts, lockmw.WithObserver(j.observer))...)
}

func newScript(o *lockmw.Observer) *usertest.Script {
	return usertest.NewScript(context.Background(), o)
}

// storing returns an option that stores a traceparent with the lock.
func storing(traceParent string) lockmw.Option {
	return lockmw.WithObserver(&lockmw.Observer{TraceParent: func(context.Context) string { return traceParent }})
}

// lost waits in a bubble for the loss of a hold, and for the observers, which are called afterwards.
func lost(ctx context.Context) {
	<-ctx.Done()
	synctest.Wait()
}
