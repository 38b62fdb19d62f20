package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// busy returns a held lock with this many waiters; longest is the wait of the first, in seconds.
func busy(key string, waiting int, longest float64, rate float64) *topRow {
	r := &topRow{HandOffs: rate}
	r.Key, r.Mode, r.Waiting = key, "exclusive", waiting
	r.Holders = []holderRecord{{ID: "1-" + key, Label: "req-" + key, Process: "web-1:4711:abcdef01", Held: 3}}
	if waiting > 0 {
		r.LongestWait = &longest
		r.Waiters = []waiterRecord{{Position: 1, Ticket: "t", Process: "web-2:12:ab", Mode: "exclusive", Calls: waiting, Waiting: &longest}}
	}
	return r
}

// sightOf returns the result of a scan that finds these locks.
func sightOf(rows ...*topRow) *sight {
	s := &sight{longest: -1}
	for _, r := range rows {
		s.looks = append(s.looks, lookOf(r))
		s.held++
		s.waiting += r.Waiting
		s.longest = max(s.longest, r.longest())
	}
	return s
}

func lookOf(r *topRow) *look {
	return &look{time.Now(), r.lockRecord}
}

// onScreen returns a screen of 80 × 24 that shows these locks.
func onScreen(t *testing.T, rows ...*topRow) *screen {
	t.Helper()
	s := newScreen(t.Context(), &eyes{}, 0, time.Second)
	s.where, s.prefix = "redis.internal:6379", "lockmw"
	for _, r := range rows {
		s.memory[r.Key] = &heat{rate: r.HandOffs, at: time.Now()}
	}
	s.Update(sightMsg{sightOf(rows...)})
	return s
}

// text returns the content of the screen without colours, and checks that it fits.
func text(t *testing.T, s *screen) string {
	t.Helper()
	lines := strings.Split(ansi.Strip(s.View().Content), "\n")
	if len(lines) > s.height {
		t.Errorf("the screen has %d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	for _, line := range lines {
		if w := lipgloss.Width(line); w > s.width {
			t.Errorf("a line is %d characters wide: %s", w, line)
		}
	}
	return strings.Join(lines, "\n")
}

// shows checks that a screen shows these texts.
func shows(t *testing.T, s *screen, texts ...string) {
	t.Helper()
	shown := text(t, s)
	for _, want := range texts {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is missing:\n%s", want, shown)
		}
	}
}

// lacks checks that a screen does not show a text.
func lacks(t *testing.T, s *screen, unwanted string) {
	t.Helper()
	if shown := text(t, s); strings.Contains(shown, unwanted) {
		t.Errorf("%q is shown:\n%s", unwanted, shown)
	}
}

func press(s *screen, keys ...string) {
	named := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown}
	for _, k := range keys {
		key := tea.KeyPressMsg{Code: named[k]}
		if key.Code == 0 {
			key = tea.KeyPressMsg{Code: rune(k[0]), Text: k}
		}
		s.Update(key)
	}
}

// lists checks which of four keys are in the table, from top to bottom.
func lists(t *testing.T, s *screen, want string) {
	t.Helper()
	shown := text(t, s)
	place := func(key string) int { return strings.Index(shown, " "+key+" ") }
	keys := slices.DeleteFunc([]string{"user:1", "item:2", "cart:3", "new:4"}, func(k string) bool { return place(k) < 0 })
	slices.SortFunc(keys, func(a, b string) int { return place(a) - place(b) })
	if got := strings.Join(keys, " "); got != want {
		t.Errorf("it lists %s, want %s:\n%s", got, want, shown)
	}
}

func TestTheScreenShowsTheBusiestFirst(t *testing.T) {
	s := onScreen(t, busy("user:1", 1, 9, 0), busy("item:2", 7, 4, 0.2), busy("cart:3", 0, 0, 3))
	shows(t, s,
		"lockmw top  redis.internal:6379  prefix lockmw", "3 keys held, 8 waiting, longest wait 9.0s  ·  sorted by wait", "KEY", "HOLDER", "LONGEST",
		"> user:1", "req-user:1 @ web-1", "q quit")
	for _, want := range []string{"user:1 item:2 cart:3", "item:2 user:1 cart:3", "cart:3 item:2 user:1"} { // wait, waiters, handoffs
		lists(t, s, want)
		press(s, "s")
	}
}

func TestTheScreenIsFiltered(t *testing.T) {
	s := onScreen(t, busy("user:1", 1, 9, 0), busy("item:2", 7, 4, 0.2))
	press(s, "/", "i", "t", "e")
	shows(t, s, "filter keys: ite", "> item:2")
	lacks(t, s, "user:1")
	press(s, "q") // it belongs to the filter
	lacks(t, s, "item:2")
	press(s, "enter")
	shows(t, s, "filter iteq", "no key matches")
	press(s, "esc")
	shows(t, s, "user:1")
}

func TestOneKeyIsOpened(t *testing.T) {
	s := onScreen(t, busy("user:1", 1, 9, 0), busy("item:2", 7, 4, 0.2))
	press(s, "down", "enter")
	s.Update(looksMsg{looks: []*look{lookOf(busy("item:2", 7, 4, 1))}})
	more := lookOf(busy("item:2", 8, 5, 1))
	more.record.Waiters = append(more.record.Waiters, waiterRecord{Ticket: "u", Process: "web-9:1:a"})
	s.Update(looksMsg{looks: []*look{more}})
	shows(t, s, "item:2: 1 holder, 8 waiting, longest wait 5.0s", "holder   1-item:2", "web-2:12:ab", "lockmw unlock item:2 --holder",
		"recent events", "queued", "web-9:1:a", "esc back")
	press(s, "esc")
	shows(t, s, "> item:2")
}

func TestTheScreenSaysThatRedisDoesNotAnswer(t *testing.T) {
	s := onScreen(t, busy("user:1", 1, 9, 0))
	s.hide = secrets{"hush"}.hide
	failed := fmt.Errorf("%w: dial tcp with hush: connection refused", lockmw.ErrUnavailable)
	for _, msg := range []tea.Msg{sightMsg{&sight{err: failed}}, looksMsg{err: failed}} {
		_, next := s.Update(msg)
		shows(t, s, "no answer for ", ": dial tcp with …: connection refused", "> user:1")
		if next == nil {
			t.Error("the screen does not continue")
		}
		s.Update(sightMsg{sightOf(busy("user:2", 0, 0, 0))})
		shows(t, s, "user:2")
		lacks(t, s, "no answer")
		s.Update(sightMsg{sightOf(busy("user:1", 1, 9, 0))})
	}
}

func TestAPausedScreenStays(t *testing.T) {
	s := onScreen(t, busy("user:1", 1, 9, 0))
	press(s, "p")
	s.Update(sightMsg{sightOf(busy("user:2", 0, 0, 0))})
	shows(t, s, "paused", "user:1")
	lacks(t, s, "user:2")
}

func TestTheScreenFitsEveryWindow(t *testing.T) {
	var rows []*topRow
	for i := range 100 {
		rows = append(rows, busy(fmt.Sprintf("k%d:with-a-long-id-\x1b[2J-that-goes-on-and-on", i), i, float64(i), 0))
	}
	s := onScreen(t, rows...)
	for _, size := range [][2]int{{80, 24}, {50, 8}, {200, 60}, {81, 25}} {
		s.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		shows(t, s, "> k99:wi", "select")
		press(s, "enter")
		shows(t, s, "k99:with-a-long-id")
		press(s, "esc")
	}
	for range 99 {
		press(s, "down")
	}
	shows(t, s, "> k0:wi")
}

func TestTopSeesHandOffs(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		locks := newClient(t, s)
		e, m := newEyes(t, s), make(memory)
		_, hold := take(t, locks, "user:42")
		first := e.scan(t.Context(), topOrders[0].compare, m)
		rows := m.rows(first.looks, true)
		if first.err != nil || first.held != 1 || len(rows) != 1 || rows[0].HandOffs != 0 {
			t.Fatalf("the first scan finds %+v", first)
		}
		rate := func() float64 {
			t.Helper()
			looks, err := e.lookAgain(t.Context(), hotKeys(rows, ""))
			if err != nil || len(looks) != 1 {
				t.Fatalf("it finds %+v, %v", looks, err)
			}
			m.rows(looks, false)
			return m["user:42"].rate
		}
		if r := rate(); r != 0 {
			t.Errorf("without a hand-off it counts %v", r)
		}
		usertest.Unlock(t, hold)
		_, hold = take(t, locks, "user:42")
		if rate() <= 0 {
			t.Error("it counts no hand-off")
		}
		m.note(first.looks[0]) // an older look
		if m["user:42"].last == first.looks[0] {
			t.Error("it takes an older look for the last one")
		}
		usertest.Unlock(t, hold)
		last := e.scan(t.Context(), topOrders[0].compare, m.copied())
		if rows := m.rows(last.looks, true); len(rows) != 0 || len(m) != 0 {
			t.Errorf("when all locks are free, memory has %+v", m)
		}
	})
}

func newEyes(t *testing.T, s *redistest.Server) *eyes {
	t.Helper()
	return &eyes{inspector: usertest.Inspector(t, s.NewClient(t)), match: func(*lockRecord) bool { return true }, now: time.Now, hide: strings.Clone}
}

// A tail is the output of a program that signals when it contains a text.
type tail struct {
	io.Writer
	all  bytes.Buffer
	text string
	seen chan struct{}
}

func (w *tail) Write(p []byte) (int, error) {
	had := strings.Contains(w.all.String(), w.text)
	w.all.Write(p)
	if !had && strings.Contains(w.all.String(), w.text) {
		close(w.seen)
	}
	return len(p), nil
}

// runsUntil runs a screen until it shows a text. It returns the screen and its whole output.
func runsUntil(t *testing.T, s *redistest.Server, text string) (m *screen, wrote string) {
	t.Helper()
	out := &tail{text: text, seen: make(chan struct{})}
	m = newScreen(t.Context(), newEyes(t, s), 0, time.Second)
	p := tea.NewProgram(m, tea.WithContext(t.Context()), tea.WithInput(nil), tea.WithOutput(out),
		tea.WithWindowSize(80, 24), tea.WithEnvironment([]string{"TERM=xterm-256color"}), tea.WithoutSignalHandler())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Run()
		ended <- err
	}()
	<-out.seen
	p.Send(tea.KeyPressMsg{Code: 'q', Text: "q"})
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return m, out.all.String()
}

func TestTheScreenRunsAndGivesTheTerminalBack(t *testing.T) {
	s := redistest.Mini(t)
	take(t, newClient(t, s), "user:42")
	_, shown := runsUntil(t, s, "user:42")
	if on, off := strings.Index(shown, ansi.SetModeAltScreenSaveCursor), strings.LastIndex(shown, ansi.ResetModeAltScreenSaveCursor); on < 0 || off < on {
		t.Errorf("the other screen begins at %d and ends at %d", on, off)
	}
}

// A topLine is a line of `lockmw top --json`.
type topLine struct {
	Partial       bool
	Held, Waiting int
	Locks         []struct{ Key string }
}

func TestTopPrintsJSONWithoutATerminal(t *testing.T) {
	s := redistest.Mini(t)
	take(t, newClient(t, s), "user:42")
	out, ended := start(t, t.Context(), "top", "--json", "--interval", "100ms", "--redis", s.Addr())
	d := json.NewDecoder(out)
	for range 2 {
		var line topLine
		if err := d.Decode(&line); err != nil || line.Held != 1 || len(line.Locks) != 1 || line.Locks[0].Key != "user:42" {
			t.Fatalf("it prints %+v, %v", line, err)
		}
	}
	_ = out.CloseWithError(errors.New("enough")) // the command's next write fails
	if got := <-ended; got != statusFailed {
		t.Errorf("it ends with %d", got)
	}
}

// fill stores this many locks without waiters.
func fill(t *testing.T, rdb redis.UniversalClient, locks int) {
	t.Helper()
	const script = `for i = 1, tonumber(ARGV[1]) do
		local k = 'lockmw:{item:' .. i .. '}'
		redis.call('hset', k, 'id', '1', 'token', ARGV[2], 'inbox', 'lockmw:inbox:web-1:1', 'owner', 'o') redis.call('pexpire', k, 600000) end`
	if err := rdb.Eval(t.Context(), script, nil, locks, time.Now().UnixMicro()).Err(); !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
}

func TestContendedLocksAreShownWhileAllAreRead(t *testing.T) {
	s := redistest.Redis(t)
	fill(t, s.NewClient(t), 30_000)
	take(t, newClient(t, s), "user:42")
	waitBehind(t, s, "user:42")
	m, _ := runsUntil(t, s, "> user:42")
	if m.ready {
		t.Error("it came after all locks were read")
	}
	shows(t, m, "1 wait", "so far", "reading, ")
}

func TestWaitsThatChangeWhileAllLocksAreReadAreShown(t *testing.T) {
	s := onScreen(t, busy("user:1", 1, 9, 0), busy("item:2", 7, 4, 0), busy("cart:3", 0, 0, 0))
	queues := func(asked []string, rows ...*topRow) { s.Update(queuesMsg{sightOf(rows...), asked}) }
	queues([]string{"user:1", "item:2"}, busy("item:2", 8, 20, 0), busy("new:4", 1, 2, 0), busy("user:1", 0, 0, 0))
	lists(t, s, "item:2 new:4 cart:3 user:1")
	queues([]string{"item:2", "new:4"}, busy("new:4", 1, 3, 0))
	lists(t, s, "new:4 cart:3 user:1")
	press(s, "p")
	queues(nil, busy("item:2", 1, 30, 0))
	lists(t, s, "new:4 cart:3 user:1")
	press(s, "p")
	old := sightOf(busy("new:4", 5, 50, 0), busy("cart:3", 0, 0, 0)) // read before the queues
	for _, l := range old.looks {
		l.at = l.at.Add(-time.Minute)
	}
	s.Update(sightMsg{old})
	lists(t, s, "new:4 cart:3 user:1")
	shows(t, s, "3.0s")
	lacks(t, s, "    50s")
	s.scanned = time.Now()
	s.Update(sightMsg{sightOf(busy("cart:3", 0, 0, 0))})
	lists(t, s, "cart:3")
	failed := sightOf()
	failed.err = fmt.Errorf("%w: gone", lockmw.ErrUnavailable)
	s.Update(queuesMsg{failed, []string{"cart:3"}})
	shows(t, s, "no answer for ")
	lists(t, s, "cart:3")
}

func TestJSONShowsContendedLocksWhileAllAreRead(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	slow := s.NewProxy(t)
	slow.Delay(5*time.Millisecond, 0) // so that reading all takes longer than patience on a fast machine too
	fill(t, s.NewClient(t), 3_000)
	take(t, newClient(t, s), "user:42")
	waitBehind(t, s, "user:42")
	out, ended := start(t, t.Context(), "top", "--json", "--interval", "200ms", "--redis", slow.Addr())
	var first, l topLine
	d := json.NewDecoder(out)
	if err := d.Decode(&first); err != nil {
		t.Fatal(err)
	}
	if !first.Partial || len(first.Locks) != 1 || first.Locks[0].Key != "user:42" || first.Held != 1 || first.Waiting != 1 {
		t.Errorf("it prints %+v", first)
	}
	for l = first; l.Partial; {
		l = topLine{}
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
	}
	if l.Held != 3_001 || l.Locks[0].Key != "user:42" {
		t.Errorf("of all locks it prints %d, the first %q", l.Held, l.Locks[0].Key)
	}
	_ = out.CloseWithError(errors.New("enough"))
	<-ended // and its scan
}
