package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/lockmw"
)

// A watching is one run of `lockmw watch`.
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
		Short: "Follow one lock, an event per line",
		Long: `Prints the events of a lock: a call queues, is granted the lock, renews or releases it, or its lease expires.

It reads the key at intervals, so it misses whatever begins and ends between two reads. Ctrl-C ends the command.
With --until-free the exit status is 0 only if the lock became free, and 1 if --for ended before.`,
		Example: `  lockmw watch order:1001
  lockmw watch order:1001 --until-free`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w.key = args[0]
			if err := checkKey(w.key); err != nil {
				return err
			}
			switch {
			case w.interval < 10*time.Millisecond:
				return usage("--interval: at least 10ms")
			case w.limit < 0:
				return usage("--for: at least 0")
			}
			return w.run(cmd.Context())
		},
	}
	cmd.Flags().DurationVar(&w.interval, "interval", 250*time.Millisecond, "pause between two reads")
	cmd.Flags().DurationVar(&w.limit, "for", 0, "how long to watch; 0: until you press Ctrl-C")
	cmd.Flags().BoolVar(&w.untilFree, "until-free", false, "end as soon as nobody holds the lock")
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
			return w.atEnd(ctx)
		}
		if err != nil && l.last == nil {
			return err
		}
		for _, e := range l.next(status, err, w.conn.now()) {
			if err := w.tell(e); err != nil && w.untilFree {
				return &statusError{statusFailed, say("nobody reads the output any more, and %s was not seen free", w.key)}
			} else if err != nil {
				return err
			}
		}
		if w.untilFree && err == nil && len(status.Holders) == 0 {
			return nil
		}
		if !pause.For(ended, w.interval) {
			return w.atEnd(ctx)
		}
	}
}

// atEnd is the result when an interrupt or --for ends it. The lock that --until-free awaits was not seen free.
func (w *watching) atEnd(ctx context.Context) error {
	if !w.untilFree {
		return nil
	}
	return cmp.Or(ctx.Err(), error(&statusError{statusFailed, say("%s was not seen free within %s", w.key, shortly(w.limit))}))
}

// A life is the state of a watched lock.
type life struct {
	last *look // nil before the first look
	away bool  // Redis does not answer
}

// next returns the events up to the next look, which may have failed with err.
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

// tell prints an event and flushes it.
func (w *watching) tell(e event) error {
	e.Key, e.Error = w.key, w.secrets.hide(e.Error)
	return w.line(e, func() { printf(w.out, "%s\n", e.line("15:04:05.000", w.io.terminalWidth())) })
}

// The events of a lock.
const (
	eventFree        = "free"        // the first look finds no holder
	eventHeld        = "held"        // the first look finds a holder
	eventQueued      = "queued"      // a ticket joins the queue
	eventLeft        = "left"        // a ticket leaves the queue without the lock
	eventGranted     = "granted"     // a new hold
	eventHandedOver  = "handed_over" // a new hold, directly from the previous holder
	eventRenewed     = "renewed"     // the lease ends later than before
	eventUnlocked    = "unlocked"    // released, but the key stays taken (WithMinHold)
	eventReleased    = "released"    // the hold has ended
	eventExpired     = "expired"     // the lease has expired: the hold is lost
	eventUnreachable = "unreachable" // Redis does not answer
	eventBack        = "back"        // Redis answers again
)

// An event is one event as --json prints it.
type event struct {
	Time    time.Time     `json:"time"`
	Key     string        `json:"key"`
	Event   string        `json:"event"`
	Holder  *holderRecord `json:"holder,omitempty"`
	Waiter  *waiterRecord `json:"waiter,omitempty"`
	From    *holderRecord `json:"from,omitempty"` // the previous holder
	Waited  *float64      `json:"waited_seconds,omitempty"`
	Waiting int           `json:"waiting"` // waiting calls after the event
	Error   string        `json:"error,omitempty"`
}

// parts are the texts of an event for people.
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
		add("%d waiting", e.Waiting)
	}
	return parts
}

// line formats an event for a terminal of this width.
func (e *event) line(layout string, width int) safe {
	return hanging(say("%s  %-11s ", e.Time.Local().Format(layout), e.Event), e.parts(), width)
}

// A look is the state of a lock at one time.
type look struct {
	at     time.Time
	record lockRecord
}

func lookAt(s lockmw.Status, now time.Time) *look { return &look{now, recordOf(s, now)} }
