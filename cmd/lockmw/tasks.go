package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/lockmw"
)

// A taskRecord is a task of asynq that waits for a lock, as --json prints it.
type taskRecord struct {
	Key     string    `json:"key"`
	Queue   string    `json:"queue"`
	Task    string    `json:"task"`
	Place   int       `json:"place"`
	Since   time.Time `json:"since"`
	Waiting float64   `json:"waiting_seconds"`
	State   string    `json:"state"` // parked, woken or waiting
}

func taskRecords(list parked.List, now time.Time) []taskRecord {
	records := make([]taskRecord, len(list.Tasks))
	for i, t := range list.Tasks {
		records[i] = taskRecord{t.Key, t.Queue, t.ID, t.Place, t.Since.UTC(), seconds(max(now.Sub(t.Since), 0)), t.State}
	}
	return records
}

func (c *command) tasks() *cobra.Command {
	return &cobra.Command{
		Use:   "tasks [KEY]",
		Short: "List the asynq tasks that wait for locks, in order",
		Long: `Lists the asynq tasks that wait for one lock, or for any: queue, place, and the time of waiting. Package asynqmw parks a task
whose lock is busy; asynq's own tools show it in state retry.

A task is parked (back in its queue), woken (on its way to a worker) or waiting (in its worker). The list has the first
100 tasks of each queue and lock. It omits tasks that retry at a fixed time; lockmw show lists their kept places.

--redis is the Redis of the queues. The user needs +smembers +sscan +eval +time +zrange +zcard +zscore +hmget on ~asynq:*.`,
		Example: `  lockmw tasks
  lockmw tasks order:1001 --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if err := checkKey(args[0]); err != nil {
					return err
				}
			}
			inspector, err := c.connect(cmd.Context())
			if err != nil {
				return err
			}
			return c.printTasks(cmd.Context(), inspector, args)
		},
	}
}

func (c *command) printTasks(ctx context.Context, inspector *lockmw.Inspector, args []string) error {
	reader := parked.NewReader(c.conn.client, c.prefix)
	lists, what := reader.All(ctx), say("no task waits for a lock")
	if len(args) == 1 {
		what = say("no task waits for %s", args[0])
		lists = func(yield func(parked.List, error) bool) { yield(reader.Tasks(ctx, args[0])) }
	}
	table := c.listing("KEY", "QUEUE", "TASK", "PLACE", "WAITING", "STATE")
	found, more := 0, 0
	for list, err := range lists {
		if err != nil {
			return err
		}
		more += list.More
		for _, r := range taskRecords(list, c.conn.now()) {
			found++
			if c.json {
				if err := c.printJSON(r); err != nil {
					return err
				}
				continue
			}
			table.add(r.Key, r.Queue, r.Task, fmt.Sprint(r.Place), ago(r.Waiting), r.State)
		}
	}
	table.flush()
	if found == 0 {
		return c.nothing(ctx, inspector, what)
	}
	if more > 0 {
		printf(c.io.err, "%d more are not shown\n", more)
	}
	return nil
}

// readTasks adds the tasks that wait for a lock. If they cannot be read, it says so; the lock is shown all the same.
func (c *command) readTasks(ctx context.Context, r *lockRecord) {
	list, err := parked.NewReader(c.conn.client, c.prefix).Tasks(ctx, r.Key)
	switch {
	case redis.IsPermissionError(err):
		printf(c.io.err, "lockmw: this user may not read asynq:*: waiting tasks are not shown\n")
	case err != nil:
		printf(c.io.err, "lockmw: waiting tasks are not shown: %s\n", c.secrets.hide(err.Error()))
	}
	r.Tasks = taskRecords(list, c.conn.now())
	r.MoreTasks = list.More
}

// printTasksOf prints the tasks that wait for one lock.
func printTasksOf(out io.Writer, r *lockRecord) {
	if len(r.Tasks) == 0 {
		return
	}
	printf(out, "\n")
	t := newTable(out, "  PLACE", "QUEUE", "TASK", "WAITING", "STATE")
	for _, task := range r.Tasks {
		t.add(fmt.Sprint("  ", task.Place), task.Queue, task.Task, ago(task.Waiting), task.State)
	}
	t.flush()
	if r.MoreTasks > 0 {
		printf(out, "  and %d more\n", r.MoreTasks)
	}
}
