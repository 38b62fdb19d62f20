package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/table"
	"charm.land/bubbles/v2/textinput"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"github.com/lockmw/go/internal/pause"
)

// A screen is the model of `lockmw top`. Its commands are scans of all locks and looks at the first rows. Each starts some time after
// the previous one was answered.
type screen struct {
	ctx      context.Context
	eyes     *eyes
	interval time.Duration
	where    string
	prefix   string
	hide     func(string) string

	width, height int
	table         table.Model
	input         textinput.Model
	page          viewport.Model
	sort          int
	typing        bool // a filter
	paused        bool
	open          string // the key that is shown alone; "" for the list
	happened      []event

	memory  memory
	sight   *sight
	seenAt  time.Time        // arrival of sight
	looks   map[string]*look // the latest look at each lock of the list, and at the open one
	shown   []*topRow        // locks that match the filter, sorted
	scanned time.Time        // start of the running scan; zero: no scan is running
	ready   bool             // a scan has finished
	err     error
	since   time.Time // first occurrence of err
}

// Messages about Redis and the clock.
type (
	sightMsg  struct{ *sight }
	queuesMsg struct {
		*sight
		asked []string // keys that were read even without a queue
	}
	looksMsg struct {
		looks []*look
		err   error
	}
	scanMsg  struct{} // time for a scan
	lookMsg  struct{} // time for a look
	queueMsg struct{} // time to read the queues
	clockMsg struct{} // time to update the clock
)

func newScreen(ctx context.Context, e *eyes, sort int, interval time.Duration) *screen {
	s := &screen{
		ctx: ctx, eyes: e, interval: interval, sort: sort, hide: func(text string) string { return text },
		table: table.New(table.WithFocused(true), table.WithStyles(tableStyles())), input: textinput.New(), page: viewport.New(),
		sight: &sight{longest: -1}, memory: make(memory), looks: make(map[string]*look),
	}
	s.input.Prompt = "filter keys: "
	s.resize(80, 24)
	return s
}

// Init implements tea.Model. The first scan of all locks begins after the queues have been read.
func (s *screen) Init() tea.Cmd {
	return tea.Batch(s.queues(), s.look(), s.after(time.Second, clockMsg{}))
}

// scan returns a command that reads all locks.
func (s *screen) scan() tea.Cmd {
	s.scanned = time.Now()
	compare, known := topOrders[s.sort].compare, s.memory.copied()
	return func() tea.Msg { return sightMsg{s.eyes.scan(s.ctx, compare, known)} }
}

// queues returns a command that reads the locks with waiters. It is much faster than a scan of all locks, so it runs first, and again
// during a long scan.
func (s *screen) queues() tea.Cmd {
	var asked []string
	hot := hotKeys(s.shown, s.open) // they are read again anyway
	for key, l := range s.looks {
		if l.record.Waiting > 0 || l.at.After(s.seenAt) && !slices.Contains(hot, key) {
			asked = append(asked, key)
		}
	}
	compare, known := topOrders[s.sort].compare, s.memory.copied()
	return func() tea.Msg { return queuesMsg{s.eyes.scanQueues(s.ctx, compare, known, asked), asked} }
}

// look returns a command that reads the first rows again.
func (s *screen) look() tea.Cmd {
	keys := hotKeys(s.shown, s.open)
	return func() tea.Msg {
		looks, err := s.eyes.lookAgain(s.ctx, keys)
		return looksMsg{looks, err}
	}
}

// after sends a message after d. It ends with the screen's ctx, unlike tea.Tick.
func (s *screen) after(d time.Duration, msg tea.Msg) tea.Cmd {
	return func() tea.Msg {
		if !pause.For(s.ctx, d) {
			return nil
		}
		return msg
	}
}

// Update implements tea.Model.
func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := s.update(msg)
	return s, cmd
}

func (s *screen) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.resize(msg.Width, msg.Height)
	case tea.KeyPressMsg:
		return s.press(msg)
	case sightMsg:
		s.seeAll(msg.sight)
		return s.after(s.interval, scanMsg{})
	case looksMsg:
		s.seeAgain(msg)
		return s.after(hotEvery, lookMsg{})
	case queuesMsg:
		s.seeQueues(msg)
		next := s.after(s.interval, queueMsg{})
		if !s.ready && s.scanned.IsZero() {
			return tea.Batch(s.scan(), next)
		}
		return next
	case queueMsg:
		if s.ready && time.Since(s.seenAt) < s.interval+time.Second { // all locks are read often
			return s.after(s.interval, queueMsg{})
		}
		return s.queues()
	case scanMsg:
		return s.scan()
	case lookMsg:
		return s.look()
	case clockMsg:
		return s.after(time.Second, clockMsg{})
	}
	return nil
}

// seeAll shows the result of a scan.
func (s *screen) seeAll(sight *sight) {
	begun := s.scanned
	s.scanned, s.ready, s.seenAt = time.Time{}, true, time.Now()
	s.noteError(sight.err)
	if sight.err != nil || s.paused {
		return
	}
	s.sight = sight
	s.memory.rows(sight.looks, true)
	earlier := s.looks
	s.looks = make(map[string]*look, len(sight.looks))
	for key, l := range earlier {
		if key == s.open || !l.record.isFree() && !l.at.Before(begun) {
			s.looks[key] = l // the scan may have passed the lock before it was taken
		}
	}
	for _, l := range sight.looks {
		if e := earlier[l.record.Key]; e != nil && e.at.After(l.at) {
			l = e
		}
		s.looks[l.record.Key] = l
	}
	s.refresh()
}

// seeQueues shows the locks with waiters.
func (s *screen) seeQueues(msg queuesMsg) {
	s.noteError(msg.err)
	if msg.err != nil || s.paused {
		return
	}
	for _, key := range msg.asked {
		if key != s.open {
			delete(s.looks, key) // it is free, unless a look follows
		}
	}
	for _, l := range msg.looks {
		s.looks[l.record.Key] = l
		s.memory.note(l)
	}
	if !s.ready {
		s.sight = msg.sight
	}
	s.refresh()
}

// seeAgain shows the new state of the first rows.
func (s *screen) seeAgain(msg looksMsg) {
	if msg.err != nil || len(msg.looks) > 0 {
		s.noteError(msg.err)
	}
	if s.paused {
		return
	}
	for _, l := range msg.looks {
		key, events := l.record.Key, s.memory.note(l)
		if key == s.open {
			s.happened = append(s.happened, events...)
		}
		if key == s.open || s.looks[key] != nil {
			s.looks[key] = l
		}
	}
	s.happened = s.happened[max(len(s.happened)-8, 0):]
	s.refresh()
}

func (s *screen) noteError(err error) {
	if err != nil && s.err == nil {
		s.since = time.Now()
	}
	s.err = err
}

// press handles a key.
func (s *screen) press(key tea.KeyPressMsg) (cmd tea.Cmd) {
	name := key.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case s.typing:
		switch name {
		case "enter":
			s.stopTyping()
		case "esc":
			s.input.SetValue("")
			s.stopTyping()
		default:
			s.input, cmd = s.input.Update(key)
		}
	case name == "q":
		return tea.Quit
	case name == "p":
		s.paused = !s.paused
	case s.open != "":
		if name == "esc" || name == "enter" || name == "backspace" || name == "left" {
			s.open = ""
		} else {
			s.page, cmd = s.page.Update(key)
		}
	case name == "s":
		s.sort = (s.sort + 1) % len(topOrders)
	case name == "/":
		s.typing = true
		cmd = s.input.Focus()
	case name == "esc":
		s.input.SetValue("")
	case name == "enter" || name == "right":
		if i := s.table.Cursor(); i >= 0 && i < len(s.shown) {
			s.open, s.happened = s.shown[i].Key, nil
			s.page.GotoTop()
		}
	default:
		s.table, cmd = s.table.Update(key)
	}
	s.refresh()
	return cmd
}

func (s *screen) stopTyping() {
	s.typing = false
	s.input.Blur()
}

// resize fits all parts into the window.
func (s *screen) resize(width, height int) {
	s.width, s.height = max(width, 40), max(height, 8)
	const numbers = 26 + 7 // with the space after each column
	key := (s.width - numbers + 1) / 2
	holder := s.width - numbers - key
	if s.width < 66 { // no room for the holder
		key, holder = s.width-numbers+1, 0
	}
	s.table.SetColumns([]table.Column{
		{Title: "  KEY", Width: key}, {Title: "HOLDER", Width: holder}, {Title: "  HELD", Width: 6},
		{Title: " WAIT", Width: 5}, {Title: "LONGEST", Width: 7}, {Title: "/S", Width: 4}, {Title: "LOST", Width: 4},
	})
	s.table.SetWidth(s.width)
	s.table.SetHeight(s.height - 4)
	s.page.SetWidth(s.width)
	s.page.SetHeight(s.height - 4)
	s.input.SetWidth(s.width - 20)
	s.refresh()
}

// refresh sorts, filters and renders the rows.
func (s *screen) refresh() {
	s.shown = nil
	filter := strings.ToLower(s.input.Value())
	for key, l := range s.looks {
		if strings.Contains(strings.ToLower(key), filter) {
			s.shown = append(s.shown, s.memory.row(l))
		}
	}
	slices.SortFunc(s.shown, topOrders[s.sort].compare)
	rows := make([]table.Row, len(s.shown))
	for i, r := range s.shown {
		rows[i] = s.row(r)
	}
	s.table.SetRows(rows)
	if len(rows) > 0 {
		s.table.SetCursor(max(s.table.Cursor(), 0))
		selected := rows[s.table.Cursor()]
		selected[0] = "> " + strings.TrimPrefix(selected[0], "  ") // visible even without colours
		s.table.SetRows(rows)
	}
	if s.open != "" {
		s.page.SetContent(s.detail())
	}
}

// row formats a line of the table.
func (s *screen) row(r *topRow) table.Row {
	holder, wait, rate, losses := "-", "", "", ""
	if len(r.Holders) > 0 {
		holder = clean(who(r.Holders[0].Label, r.Holders[0].Process))
		if n := len(r.Holders); n > 1 {
			holder = fmt.Sprintf("(%d) %s", n, holder)
		}
	}
	if r.Waiting > 0 {
		wait = fmt.Sprint(r.Waiting)
	}
	if r.HandOffs >= 0.05 {
		rate = fmt.Sprintf("%.1f", r.HandOffs)
	}
	if r.Losses > 0 {
		losses = fmt.Sprint(r.Losses)
	}
	return table.Row{
		"  " + clean(r.Key), holder, fmt.Sprintf("%6s", ago(r.held())), fmt.Sprintf("%5s", wait), fmt.Sprintf("%7s", ago(r.longest())),
		fmt.Sprintf("%4s", rate), fmt.Sprintf("%4s", losses),
	}
}
