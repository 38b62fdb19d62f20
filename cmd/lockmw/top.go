package main

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"os"
	"slices"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/internal/transport"
	"github.com/lockmw/go/lockmw"
)

const (
	topRows  = 500                    // locks that top keeps from a scan
	hotRows  = 15                     // locks that it reads again between scans
	hotEvery = 250 * time.Millisecond // interval of these reads
	rateTime = 5 * time.Second        // averaging time of hand-offs
)

// A topping is one run of `lockmw top`.
type topping struct {
	*command
	filter
	interval time.Duration
	limit    time.Duration
	sort     string
}

func (c *command) top() *cobra.Command {
	t := &topping{command: c}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the busiest keys on a live screen",
		Long: `Shows the busiest locks on a live screen. Keys: up and down select, enter opens one, s sorts, / filters, p pauses, q quits.

Hand-offs are counted by reading the first keys four times a second. If a key changes hands more often, some hand-offs are
missed, and hand-offs within a process do not show. A loss is a lease that expired.
Reading all locks takes half a minute for 50,000; meanwhile the screen shows only locks with waiters.
With --json it needs no terminal and prints one line per interval, with the first 500 locks of the order. "more" counts the others.
A line with "partial" has only the locks with waiters.`,
		Example: `  lockmw top --sort waiters
  lockmw top --json --for 10s | jq .waiting`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case t.interval < 100*time.Millisecond:
				return usage("--interval: at least 100ms")
			case t.limit < 0:
				return usage("--for: at least 0")
			}
			return t.run(cmd.Context())
		},
	}
	t.filter.flags(cmd)
	cmd.Flags().DurationVar(&t.interval, "interval", 2*time.Second, "pause between two scans of all locks")
	cmd.Flags().DurationVar(&t.limit, "for", 0, "how long to run; 0: until you press q or Ctrl-C")
	cmd.Flags().StringVar(&t.sort, "sort", "wait", "sort by wait, waiters, handoffs, held or key")
	completes(cmd, "sort", "wait", "waiters", "handoffs", "held", "key")
	return cmd
}

func (t *topping) run(ctx context.Context) error {
	sort := slices.IndexFunc(topOrders, func(o order[*topRow]) bool { return o.name == t.sort })
	if sort < 0 {
		return usage("--sort %s: must be wait, waiters, handoffs, held or key", t.sort)
	}
	if err := t.filter.prepare(); err != nil {
		return err
	}
	in, inIsFile := t.io.in.(*os.File)
	out, outIsFile := t.io.out.(*os.File)
	if !t.json && (!inIsFile || !outIsFile || !term.IsTerminal(in.Fd()) || !term.IsTerminal(out.Fd())) {
		return usage("top needs a terminal; otherwise use top --json, ls or watch")
	}
	inspector, err := t.connect(ctx)
	if err != nil {
		return err
	}
	if t.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.limit)
		defer cancel()
	}
	e := &eyes{inspector: inspector, match: t.filter.match, now: t.conn.now, hide: t.secrets.hide}
	if t.json {
		return t.lines(ctx, e, topOrders[sort].compare)
	}
	s := newScreen(ctx, e, sort, t.interval)
	s.where, s.hide = t.conn.place.shown, t.secrets.hide
	s.prefix = t.prefix
	_, err = tea.NewProgram(s, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out)).Run()
	if ctx.Err() != nil || errors.Is(err, tea.ErrInterrupted) {
		return nil // an interrupt or --for ends it
	}
	return err
}

// lines prints the content of the screen as lines of JSON.
func (t *topping) lines(ctx context.Context, e *eyes, compare func(a, b *topRow) int) error {
	m := make(memory)
	if err := t.glance(ctx, e, compare, m); err != nil {
		return err
	}
	for ctx.Err() == nil {
		s, err := t.scan(ctx, e, compare, m)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
		rows := m.rows(s.looks, s.err == nil)
		if err := t.printSight(s, rows, false); err != nil {
			return err
		}
		for until := time.Now().Add(t.interval); time.Now().Before(until) && pause.For(ctx, min(hotEvery, time.Until(until))); {
			looks, _ := e.lookAgain(ctx, hotKeys(rows, "")) // the next scan reports an error
			m.rows(looks, false)
		}
	}
	return nil //nolint:nilerr // the end of ctx ends it
}

// patience is the time that a scan may take before partial lines bridge the gap.
const patience = time.Second

// glance reads the locks with waiters. It prints them if reading took so long that a scan of all locks will exceed patience.
func (t *topping) glance(ctx context.Context, e *eyes, compare func(a, b *topRow) int, m memory) error {
	began := time.Now()
	s := e.scanQueues(ctx, compare, m.copied(), nil)
	if s.err != nil || time.Since(began) < patience/4 {
		return nil //nolint:nilerr // the scan reports an error
	}
	return t.printSight(s, m.rows(s.looks, false), true)
}

// scan reads all locks. If that takes longer than patience, it prints partial lines with the locks that have waiters.
func (t *topping) scan(ctx context.Context, e *eyes, compare func(a, b *topRow) int, m memory) (*sight, error) {
	ctx, cancel := context.WithCancel(ctx)
	scanned, known := make(chan *sight, 1), m.copied()
	go func() { scanned <- e.scan(ctx, compare, known) }()
	wait := time.NewTimer(patience)
	defer wait.Stop()
	for {
		select {
		case s := <-scanned:
			cancel()
			return s, nil
		case <-wait.C:
			wait.Reset(t.interval)
		}
		s := e.scanQueues(ctx, compare, known, nil)
		if s.err != nil {
			continue // the scan reports an error
		}
		if err := t.printSight(s, m.rows(s.looks, false), true); err != nil {
			cancel()
			<-scanned
			return nil, err
		}
	}
}

// printSight prints the result of a scan; a partial one has only the locks with waiters.
func (t *topping) printSight(s *sight, rows []*topRow, partial bool) error {
	record := struct {
		Time    time.Time `json:"time"`
		Partial bool      `json:"partial,omitempty"` // only the locks with waiters; held and waiting count these
		Held    *int      `json:"held"`              // null, as Waiting, if Redis was not read to the end
		Waiting *int      `json:"waiting"`
		Locks   []*topRow `json:"locks"`
		More    int       `json:"more,omitempty"` // locks that are not in Locks
		Error   string    `json:"error,omitempty"`
	}{t.conn.now().UTC(), partial, &s.held, &s.waiting, rows, s.more, ""}
	if s.err != nil {
		record.Held, record.Waiting = nil, nil
		record.Error = t.secrets.hide(s.err.Error())
	}
	return errors.Join(t.printJSON(record), t.out.Flush())
}

// A heat is the recent rate of hand-offs of a key.
type heat struct {
	rate   float64 // hand-offs per second
	at     time.Time
	losses int
	last   *look
}

// note adds hand-offs that were seen up to now.
func (h *heat) note(handOffs int, now time.Time) {
	if !h.at.IsZero() {
		h.rate *= math.Exp(-now.Sub(h.at).Seconds() / rateTime.Seconds())
	}
	h.rate += float64(handOffs) / rateTime.Seconds()
	h.at = now
}

// A topRow is a lock with its counts over time.
type topRow struct {
	lockRecord
	HandOffs float64 `json:"hand_offs_per_second"`
	Losses   int     `json:"losses"`
}

// topOrders are the ways to sort the screen.
var topOrders = func() (all []order[*topRow]) {
	for _, o := range orders {
		all = append(all, order[*topRow]{o.name, func(a, b *topRow) int { return o.compare(&a.lockRecord, &b.lockRecord) }})
	}
	return slices.Insert(all, 2, order[*topRow]{"handoffs", func(a, b *topRow) int {
		return cmp.Or(cmp.Compare(b.HandOffs, a.HandOffs), all[0].compare(a, b))
	}})
}()

// eyes read locks. Its methods may run concurrently; they share only part.
type eyes struct {
	inspector *lockmw.Inspector
	match     func(*lockRecord) bool
	now       func() time.Time
	hide      func(string) string
	part      atomic.Uint64 // progress of a scan, in thousandths
}

// A sight is the result of a scan.
type sight struct {
	looks         []*look // the first locks of the order
	held, waiting int     // counts of all locks
	more          int     // locks that are not in looks
	longest       float64
	err           error
}

// scan reads all locks and keeps the first ones of an order.
func (e *eyes) scan(ctx context.Context, compare func(a, b *topRow) int, known memory) *sight {
	progress := lockmw.WithScanProgress(func(p lockmw.ScanProgress) { e.part.Store(uint64(1000 * p.Part)) })
	return e.sightOf(e.inspector.All(ctx, progress), compare, known)
}

// queueShare is the part of the server's time that a scan for queues may take. It is large because an operator may be searching for
// a stuck lock.
const queueShare = 0.5

// scanQueues reads the locks that have a queue, and also the locks of keys.
func (e *eyes) scanQueues(ctx context.Context, compare func(a, b *topRow) int, known memory, keys []string) *sight {
	return e.sightOf(e.inspector.Queued(ctx, keys, lockmw.WithShare(queueShare)), compare, known)
}

func (e *eyes) sightOf(all iter.Seq2[lockmw.Status, error], compare func(a, b *topRow) int, known memory) *sight {
	s := &sight{longest: -1}
	type found struct {
		*look
		row *topRow
	}
	kept := &best[found]{compare: func(a, b found) int { return compare(a.row, b.row) }, most: topRows}
	for status, err := range all {
		if err != nil {
			if status.Key == "" {
				s.err = err
				return s
			}
		}
		l := lookAt(status, e.now())
		if err != nil {
			l.record.Error = e.hide(err.Error())
		}
		if !e.match(&l.record) {
			continue
		}
		s.held += min(len(l.record.Holders), 1)
		s.waiting += l.record.Waiting
		s.longest = max(s.longest, l.record.longest())
		kept.add(found{l, known.row(l)})
	}
	for _, f := range kept.sorted() {
		s.looks = append(s.looks, f.look)
	}
	s.more = kept.left
	return s
}

// lookAgain reads some keys again.
func (e *eyes) lookAgain(ctx context.Context, keys []string) (looks []*look, err error) {
	for _, key := range keys {
		status, err := e.inspector.Get(ctx, key)
		if errors.Is(err, lockmw.ErrWrongType) || errors.Is(err, lockmw.ErrInvalidKey) || transport.IsReply(err) {
			continue // a scan says why
		}
		if err != nil {
			return looks, err
		}
		looks = append(looks, lookAt(status, e.now()))
	}
	return looks, nil
}

// hotKeys returns the keys of the first rows and the open key.
func hotKeys(rows []*topRow, open string) (keys []string) {
	for _, r := range rows[:min(len(rows), hotRows)] {
		keys = append(keys, r.Key)
	}
	if open != "" && !slices.Contains(keys, open) {
		keys = append(keys, open)
	}
	return keys
}

// A memory has the hand-offs and losses of keys over time.
type memory map[string]*heat

// row combines a look with the counts of its key.
func (m memory) row(l *look) *topRow {
	r := &topRow{lockRecord: l.record}
	if h := m[l.record.Key]; h != nil {
		r.HandOffs, r.Losses = math.Round(10*h.rate)/10, h.losses
	}
	return r
}

// note compares a look with the previous look at the same key, and returns the events between them.
func (m memory) note(l *look) []event {
	h := m[l.record.Key]
	if h == nil {
		h = &heat{}
		m[l.record.Key] = h
	}
	if h.last != nil && l.at.Before(h.last.at) {
		return nil // a slow scan may deliver an older look
	}
	var events []event
	handOffs := 0
	if h.last != nil {
		events = l.since(h.last)
	}
	for _, e := range events {
		switch e.Event {
		case eventGranted, eventHandedOver:
			handOffs++
		case eventExpired:
			h.losses++
		}
	}
	h.note(handOffs, l.at)
	h.last = l
	return events
}

// rows notes looks and returns their rows. With forget it drops all other keys.
func (m memory) rows(looks []*look, forget bool) (rows []*topRow) {
	seen := make(map[string]bool, len(looks))
	for _, l := range looks {
		seen[l.record.Key] = true
		m.note(l)
		rows = append(rows, m.row(l))
	}
	for key := range m {
		if forget && !seen[key] {
			delete(m, key)
		}
	}
	return rows
}

// copied returns a copy for a goroutine that only reads it.
func (m memory) copied() memory {
	c := make(memory, len(m))
	for key, h := range m {
		c[key] = &heat{rate: h.rate, losses: h.losses}
	}
	return c
}
