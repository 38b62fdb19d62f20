// Tasks measures asynq tasks that need the same lock, and other tasks next to them, on a redis-server that it starts. README.md
// of the parent folder describes the workloads.
//
//	go run ./tasks [-rounds n] [-work list] [-lock how] [-quick] [-strict]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/lockmw/go/internal/bench/crew"
	"github.com/lockmw/go/internal/bench/server"
)

func main() {
	redis.SetLogger(&logging.VoidLogger{}) // commands return the same errors
	crew.Main(work)
	rounds := flag.Int("rounds", 3, "number of rounds")
	list := flag.String("work", "", "`list` of workloads, separated by commas (default all): "+strings.Join(names(), ", "))
	lock := flag.String("lock", "default", "how tasks lock: default, as in the README of lockmw; wait, up to 5 s in their workers; setnx, with SET NX and a deleting script, for keys without contention")
	quick := flag.Bool("quick", false, "measure with two processes only, and skip the largest size of workloads that have several")
	strict := flag.Bool("strict", false, "fail if a goal is missed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	missed, err := run(ctx, os.Stdout, *rounds, *list, *lock, *quick)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tasks:", err)
		os.Exit(1)
	}
	if missed && *strict {
		os.Exit(1)
	}
}

func names() (all []string) {
	for _, w := range workloads {
		all = append(all, w.name)
	}
	return all
}

// crews are the workers of the processes that work together.
var crews = []struct {
	name    string
	workers []int
}{{"1 x 8", []int{8}}, {"2 x 4", []int{4, 4}}}

// run measures and prints the medians. It reports whether one of them misses its goal.
func run(ctx context.Context, out io.Writer, rounds int, list, lock string, quick bool) (missed bool, err error) {
	chosen := names()
	if list != "" {
		chosen = strings.Split(list, ",")
	}
	for _, name := range chosen {
		if !slices.Contains(names(), name) {
			return false, fmt.Errorf("-work: no %q; there are %s", name, strings.Join(names(), ", "))
		}
	}
	if !slices.Contains([]string{"default", "wait", "setnx"}, lock) {
		return false, fmt.Errorf("-lock: no %q; there are default, wait and setnx", lock)
	}
	redis, err := server.Start(ctx)
	if err != nil {
		return false, err
	}
	defer redis.Close()
	dir, err := os.MkdirTemp("", "lockmw-tasks")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "workload\tworkers\tfigure\tmedian\tgoal\trounds")
	for _, w := range workloads {
		if !slices.Contains(chosen, w.name) {
			continue
		}
		for _, c := range crews {
			if quick && len(c.workers) == 1 {
				continue
			}
			b := &bench{redis: redis, dir: dir, lock: lock, workers: c.workers, quick: quick}
			all, err := b.repeat(ctx, w, rounds)
			if err != nil {
				return false, fmt.Errorf("%s, %s: %w", w.name, c.name, err)
			}
			for _, f := range all {
				missed = missed || !f.isMet()
				fmt.Fprintf(table, "%s\t%s\t%s\n", w.name, c.name, f)
			}
		}
	}
	return missed, table.Flush()
}
