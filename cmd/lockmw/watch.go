package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/lockmw"
)

// A watching is a run of `lockmw watch`.
type watching struct {
	*command
	key       string
	interval  time.Duration
	limit     time.Duration
	untilFree bool
}

func (c *command) watch() *cobra.Command {
	w := &watching{command: c}
	cmd := &cobra.Command{
		Use:   "watch KEY",
		Short: "Follow the life of a lock, line by line",
		Long: `Prints what happens to a lock: who is queued, is granted the lock, renews it, releases it, or lets its lease expire.

It looks at the key at intervals: what begins and ends between two looks is not seen. It ends with Ctrl-C.`,
		Example: `  lockmw watch order:1001
  lockmw watch order:1001 --until-free`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w.key = args[0]
			if w.interval < 10*time.Millisecond {
				return usage("--interval: at least 10ms")
			}
			return w.run(cmd.Context())
		},
	}
	cmd.Flags().DurationVar(&w.interval, "interval", 250*time.Millisecond, "how often to look")
	cmd.Flags().DurationVar(&w.limit, "for", 0, "how long to watch; 0: until Ctrl-C")
	cmd.Flags().BoolVar(&w.untilFree, "until-free", false, "end when nobody holds the lock")
	return cmd
}

func (w *watching) run(ctx context.Context) error {
	inspector, err := w.connect(ctx)
	if err != nil {
		return err
	}
	ended := ctx
	if w.limit > 0 {
		var cancel context.CancelFunc
		ended, cancel = context.WithTimeout(ctx, w.limit)
		defer cancel()
	}
	l := &life{}
	for {
		status, err := inspector.Get(ended, w.key)
		if ended.Err() != nil {
			return nil // an interrupt is how it ends
		}
		if err != nil && l.last == nil {
			return err
		}
		for _, e := range l.next(status, err, w.conn.now()) {
			if err := w.tell(e); err != nil {
				return err
			}
		}
		if w.untilFree && err == nil && len(status.Holders) == 0 || !pause.For(ended, w.interval) {
			return nil
		}
	}
}

// A life is what is known of a lock that is watched.
type life struct {
	last *look // nil: it was not looked at yet
	away bool  // Redis does not answer
}

// next returns what has happened up to a look, which may have failed.
func (l *life) next(s lockmw.Status, err error, now time.Time) (events []event) {
	if err != nil {
		if !l.away {
			events = append(events, event{Time: now.UTC(), Event: eventUnreachable, Error: err.Error()})
		}
		l.away = true
		return events
	}
	if l.away {
		events = append(events, event{Time: now.UTC(), Event: eventBack})
	}
	seen := lookAt(s, now)
	events = append(events, seen.since(l.last)...)
	l.last, l.away = seen, false
	return events
}

// tell prints an event at once.
func (w *watching) tell(e event) error {
	e.Key, e.Error = w.key, w.secrets.hide(e.Error)
	if w.json {
		if err := w.printJSON(e); err != nil {
			return err
		}
		return w.out.Flush()
	}
	printf(w.out, "%s\n", e.line("15:04:05.000", w.io.terminalWidth()))
	return w.out.Flush()
}

// What can happen to a lock.
const (
	eventFree        = "free"        // at the first look nobody holds it
	eventHeld        = "held"        // at the first look somebody holds it
	eventQueued      = "queued"      // a ticket joins the queue
	eventLeft        = "left"        // a ticket leaves the queue without the lock
	eventGranted     = "granted"     // somebody has the lock now
	eventHandedOver  = "handed_over" // the same, from the one who had it
	eventRenewed     = "renewed"     // the lease ends later than before
	eventUnlocked    = "unlocked"    // the hold has ended, and the key stays taken (WithMinHold)
	eventReleased    = "released"    // the hold has ended
	eventExpired     = "expired"     // its lease has run out: it was lost
	eventUnreachable = "unreachable" // Redis does not answer
	eventBack        = "back"        // it does again
)

// An event is what --json prints of it.
type event struct {
	Time    time.Time     `json:"time"`
	Key     string        `json:"key"`
	Event   string        `json:"event"`
	Holder  *holderRecord `json:"holder,omitempty"`
	Waiter  *waiterRecord `json:"waiter,omitempty"`
	From    *holderRecord `json:"from,omitempty"` // who had the lock before
	Waited  *float64      `json:"waited_seconds,omitempty"`
	Waiting int           `json:"waiting"` // calls, after it
	Error   string        `json:"error,omitempty"`
}

// parts are what a person reads of it.
func (e *event) parts() (parts []string) {
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if h := e.Holder; h != nil {
		add("%s", who(h.Label, h.Process))
		add("id %s", h.ID)
		switch e.Event {
		case eventReleased, eventExpired, eventUnlocked:
			add("after %s", ago(h.Held))
		case eventHeld:
			add("for %s, lease %s", ago(h.Held), ago(h.TTL))
		default:
			add("lease %s", ago(h.TTL))
		}
	}
	if w := e.Waiter; w != nil {
		add("%s", who(w.Label, w.Process))
		if w.Position > 0 && e.Event == eventQueued {
			add("position %d", w.Position)
		}
		if w.Calls > 1 {
			add("%d calls", w.Calls)
		}
	}
	if e.Waited != nil {
		add("waited %s", ago(*e.Waited))
	}
	if e.From != nil {
		add("from %s", who(e.From.Label, e.From.Process))
	}
	if e.Error != "" {
		add("%s", e.Error)
	} else if e.Event != eventBack {
		add("%d wait", e.Waiting)
	}
	return parts
}

// line is a line about it for a terminal that is so wide.
func (e *event) line(layout string, width int) safe {
	return hanging(say("%s  %-11s ", e.Time.Local().Format(layout), e.Event), e.parts(), width)
}

// A look is what was seen of a lock at a time.
type look struct {
	at      time.Time
	record  lockRecord
	holders map[string]*holderRecord // by id
	waiters map[string]*waiterRecord // by ticket
}

func lookAt(s lockmw.Status, now time.Time) *look {
	l := &look{at: now, record: recordOf(s, now), holders: make(map[string]*holderRecord), waiters: make(map[string]*waiterRecord)}
	for i := range l.record.Holders {
		l.holders[l.record.Holders[i].ID] = &l.record.Holders[i]
	}
	for i := range l.record.Waiters {
		if w := &l.record.Waiters[i]; w.Ticket != "" {
			l.waiters[w.Ticket] = w
		}
	}
	return l
}
