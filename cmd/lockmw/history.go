package main

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockmw/go/lockevents"
)

// A reading is one run of `lockmw history`.
type reading struct {
	*command
	key    string // "": all keys
	most   int
	follow bool
}

func (c *command) history() *cobra.Command {
	r := &reading{command: c}
	cmd := &cobra.Command{
		Use:   "history [KEY]",
		Short: "Print the recorded events of one lock, or of all",
		Long: `Prints the recorded events of one lock, or of all locks: who waited, acquired, lost or released the lock, and for how long.

Only programs that use package lockevents record events. For other programs use "lockmw watch", which shows the present.`,
		Example: `  lockmw history order:1001
  lockmw history --last 0 --follow`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				r.key = args[0]
				if err := checkKey(r.key); err != nil {
					return err
				}
			}
			switch {
			case r.most < 0:
				return usage("--last: at least 0")
			case r.most == 0 && !r.follow:
				return usage("--last 0 prints nothing without --follow")
			}
			return r.run(cmd.Context())
		},
	}
	cmd.Flags().IntVar(&r.most, "last", 50, "number of events; 0, with --follow: only new ones")
	cmd.Flags().BoolVar(&r.follow, "follow", false, "keep printing new events until Ctrl-C")
	return cmd
}

// A recordedEvent is an event as --json prints it.
type recordedEvent struct {
	Time          time.Time `json:"time"` // by the clock of its process
	Key           string    `json:"key"`
	Event         string    `json:"event"` // waits, acquired, failed, failed_open, renewal_failed, lost, released or forced
	Process       string    `json:"process"`
	Label         string    `json:"label"`
	Op            string    `json:"op"`
	Mode          string    `json:"mode"`
	Token         int64     `json:"token,omitempty"`
	Waited        float64   `json:"waited_seconds,omitempty"`
	Held          float64   `json:"held_seconds,omitempty"`
	Contended     bool      `json:"contended,omitempty"` // with acquired: the call had to wait
	Outcome       string    `json:"outcome,omitempty"`
	Error         string    `json:"error,omitempty"`
	BehindProcess string    `json:"behind_process,omitempty"`
	BehindLabel   string    `json:"behind_label,omitempty"`
	BehindToken   int64     `json:"behind_token,omitempty"`
	Position      int       `json:"position,omitempty"`
	By            string    `json:"by,omitempty"`      // the operator who forced the release
	Dropped       int       `json:"dropped,omitempty"` // events of any key that were dropped at that time
}

func (r *reading) run(ctx context.Context) error {
	inspector, err := r.connect(ctx)
	if err != nil {
		return err
	}
	history := lockevents.NewHistory(inspector)
	if r.follow {
		return r.tellAll(history.Follow(ctx, r.key, r.most))
	}
	events, err := history.Recent(ctx, r.key, r.most)
	if err != nil {
		return err
	}
	for i := range events {
		if err := r.tell(&events[i]); err != nil {
			return err
		}
	}
	if len(events) == 0 {
		return &statusError{statusNothing, r.none()}
	}
	return nil
}

// tellAll prints events as they come, until an interrupt.
func (r *reading) tellAll(events iter.Seq2[lockevents.Event, error]) error {
	for e, err := range events {
		if err == nil {
			err = r.tell(&e)
		}
		if err == nil {
			err = r.out.Flush()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) none() safe {
	of := ""
	if r.key != "" {
		of = "for " + r.key + " "
	}
	return say("no events are recorded %sunder the prefix %s: do its programs use lockevents?", of, r.prefix)
}

func (r *reading) tell(e *lockevents.Event) error {
	e.Err = r.secrets.hide(e.Err)
	if r.json {
		return r.printJSON(recordedEvent{
			Time: e.At.UTC(), Key: e.Key, Event: string(e.Kind), Process: e.Process, Label: e.Label, Op: e.Op, Mode: e.Mode, Token: e.Token,
			Waited: seconds(e.Waited), Held: seconds(e.Held), Contended: e.Contended, Outcome: e.Outcome, Error: e.Err,
			BehindProcess: e.Behind.Process, BehindLabel: e.Behind.Label, BehindToken: e.Behind.Token, Position: e.Behind.Position, By: e.By, Dropped: e.Dropped,
		})
	}
	parts, behind := []string{who(e.Label, e.Process)}, e.Behind
	if e.Kind == lockevents.Forced {
		parts, behind.Process = []string{who(behind.Label, behind.Process)}, ""
	}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if r.key == "" {
		parts = []string{e.Key, parts[0]}
	}
	if e.Token != 0 {
		add("token %d", e.Token)
	}
	if e.Waited >= 50*time.Millisecond {
		add("waited %s", ago(seconds(e.Waited)))
	}
	if e.Held > 0 {
		add("after %s", ago(seconds(e.Held)))
	}
	if behind.Process != "" {
		add("behind %s", who(behind.Label, behind.Process))
	}
	if e.Behind.Position > 0 {
		add("position %d", e.Behind.Position)
	}
	if e.By != "" {
		add("by %s @ %s", e.By, e.Process)
	}
	if e.Err != "" {
		add("%s", e.Err)
	}
	printf(r.out, "%s\n", hanging(say("%s  %-14s ", e.At.Local().Format("15:04:05.000"), e.Kind), parts, r.io.terminalWidth()))
	if e.Dropped > 0 {
		printf(r.out, "%14s%d more events at that time were dropped (any key)\n", "", e.Dropped)
	}
	return nil
}
