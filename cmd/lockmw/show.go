package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/lockmw/go/lockmw"
)

func (c *command) show() *cobra.Command {
	return &cobra.Command{
		Use:   "show KEY",
		Short: "Show one lock: holders, queue, kept places, tasks, record",
		Long: `Shows one lock: holders, queue with positions, kept places, and the tasks of asynq that wait for it.

The record of a key of package idempotency says whether its work runs, is done, or has an unknown outcome. It is shown even if
nobody holds the lock. In Go, Key.LockKey returns the KEY to show. The answer and the request are never shown.`,
		Example: `  lockmw show order:1001
  lockmw show idem:5f2b...`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := checkKey(args[0]); err != nil {
				return err
			}
			inspector, err := c.connect(ctx)
			if err != nil {
				return err
			}
			progress, done := c.progress(func(lockmw.ScanProgress) string { return "looking for kept places" })
			kept, err := inspector.Kept(ctx, args[0], lockmw.WithScanProgress(progress))
			if done(); redis.IsPermissionError(err) {
				printf(c.io.err, "lockmw: this user may not run SCAN: kept places are not shown\n")
			} else if err != nil {
				return err
			}
			status, err := inspector.Get(ctx, args[0]) // after the search, which may take long
			if err != nil {
				return err
			}
			status.Kept = kept
			r := recordOf(status, c.conn.now())
			c.readTasks(ctx, &r)
			if c.json {
				if err := c.printJSON(r); err != nil {
					return err
				}
			}
			if r.isFree() && len(r.Tasks) == 0 && r.Work == nil {
				return c.nothing(ctx, inspector, say("nobody holds or waits for %s", args[0]))
			}
			if !c.json {
				printLock(c.out, &r)
			}
			return nil
		},
	}
}

// printLock prints everything about a lock.
func printLock(out io.Writer, r *lockRecord) {
	held := 0
	for _, h := range r.Holders {
		if !h.Lingers {
			held++
		}
	}
	printf(out, "%s: %s, %d waiting", r.Key, count(held, "holder"), r.Waiting)
	if r.LongestWait != nil {
		printf(out, ", longest wait %s", ago(*r.LongestWait))
	}
	printf(out, "\n")
	for _, h := range r.Holders {
		printf(out, "\n  %s  %s\n", r.Mode, who(h.Label, h.Process))
		printf(out, "    holder   %s\n", h.ID)
		printf(out, "    since    %s, for %s\n", h.Since.Local().Format(time.DateTime), ago(h.Held))
		printf(out, "    lease    %s\n", leaseOf(h))
		if h.Weight > 0 {
			printf(out, "    permits  %d: slots %s\n", h.Weight, h.Slots)
		}
		if h.Trace != "" {
			printf(out, "    trace    %s\n", h.Trace)
		}
	}
	if len(r.Waiters) > 0 {
		printf(out, "\n")
		t := newTable(out, "  #", "MODE", "CALLS", "WAITING", "WHO")
		for _, w := range r.Waiters {
			position, name, waiting := fmt.Sprint(w.Position), who(w.Label, w.Process), "?"
			if w.Position == 0 { // it has no ticket
				position, name = "-", name+" (in the holder's process)"
			}
			if w.Waiting != nil {
				waiting = ago(*w.Waiting)
			}
			mode := w.Mode
			if w.Weight > 1 {
				mode = fmt.Sprintf("%s of %d", mode, w.Weight)
			}
			t.add("  "+position, mode, strconv.Itoa(w.Calls), waiting, name)
		}
		t.flush()
	}
	for i, k := range r.Kept {
		if i == 0 {
			printf(out, "\n")
		}
		printf(out, "  kept  %s, queued since %s, place kept for %s\n", k.Name, k.Since.Local().Format(time.TimeOnly), ago(k.TTL))
	}
	printWork(out, r)
	printTasksOf(out, r)
}

// leaseOf describes when a hold ends by itself.
func leaseOf(h holderRecord) string {
	switch {
	case h.Lingers:
		return "released; the key stays taken for " + ago(h.TTL)
	case h.Fixed:
		return "ends in " + ago(h.TTL) + ", never renewed"
	}
	return "ends in " + ago(h.TTL) + " unless renewed"
}
