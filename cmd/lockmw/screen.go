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
	later   map[string]*look   // queues read after sight; nil: the lock became free
	seenAt  time.Time          // arrival of sight
	begun   time.Time          // start of its scan
	rows    []*topRow          // of sight
	hot     map[string]*topRow // rows that were read again since
	shown   []*topRow          // rows that match the filter, sorted
	scanned time.Time          // start of the running scan; zero: no scan is running
	ready   bool               // a scan has finished
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
		sight: &sight{longest: -1}, memory: make(memory),
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
	for _, r := range s.rows {
		if r.Waiting > 0 {
			asked = append(asked, r.Key)
		}
	}
	for key, l := range s.later {
		if l != nil && !slices.Contains(asked, key) {
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
	s.begun, s.scanned, s.ready, s.seenAt = s.scanned, time.Time{}, true, time.Now()
	s.noteError(sight.err)
	if sight.err == nil && !s.paused {
		s.sight, s.rows = sight, s.memory.rows(sight.looks, true)
		s.dropOlder(sight)
		s.refresh()
	}
}

// dropOlder drops the queues that the scan of all locks has read more recently.
func (s *screen) dropOlder(sight *sight) {
	read := make(map[string]time.Time, len(sight.looks))
	for _, l := range sight.looks {
		read[l.record.Key] = l.at
	}
	for key, l := range s.later {
		at, found := read[key]
		if l == nil || found && l.at.Before(at) || !found && l.at.Before(s.begun) {
			delete(s.later, key)
		}
	}
}

// seeQueues shows the locks with waiters.
func (s *screen) seeQueues(msg queuesMsg) {
	s.noteError(msg.err)
	if msg.err != nil || s.paused {
		return
	}
	if s.later == nil {
		s.later = make(map[string]*look)
	}
	for _, key := range msg.asked {
		s.later[key] = nil // free, unless a look follows
	}
	for _, l := range msg.looks {
		s.later[l.record.Key] = l
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
	s.hot = make(map[string]*topRow)
	for _, l := range msg.looks {
		events := s.memory.note(l)
		s.hot[l.record.Key] = s.memory.row(l)
		if l.record.Key == s.open {
			s.happened = append(s.happened, events...)
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
	for _, r := range s.known() {
		if fresh := s.hot[r.Key]; fresh != nil {
			r = fresh
		}
		if strings.Contains(strings.ToLower(r.Key), filter) {
			s.shown = append(s.shown, r)
		}
	}
	slices.SortStableFunc(s.shown, topOrders[s.sort].compare)
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

// known returns the rows of all locks in their most recent state.
func (s *screen) known() (rows []*topRow) {
	listed := make(map[string]bool, len(s.rows))
	for _, r := range s.rows {
		listed[r.Key] = true
		if l, ok := s.later[r.Key]; ok && l == nil {
			continue
		} else if ok {
			r = s.memory.row(l)
		}
		rows = append(rows, r)
	}
	for key, l := range s.later {
		if l != nil && !listed[key] {
			rows = append(rows, s.memory.row(l))
		}
	}
	return rows
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
