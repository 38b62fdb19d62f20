package report_test

import (
	"testing"

	"github.com/lockmw/go/internal/bench/report"
)

func TestGoalsOfFiguresThatShouldNotGrow(t *testing.T) {
	type values = map[string]float64
	one := func(name string, v values) report.Figures { return figures(name, "lockmw", v) }
	outcomes := judged(
		one("lost10", values{"noticed_max_ms": 700}), one("lost1k", values{"noticed_max_ms": 2001}), one("lost10k", values{"noticed_max_ms": 3000}),
		one("dead10", values{"noticed_max_ms": 4000}), one("dead1k", values{"noticed_max_ms": 4000}),
		one("inboxes100", values{"channels_per_slot": 1, "channels_per_node": 10, "ssubscribe_per_inbox": 1.5}),
		one("inboxes1k", values{"channels_per_slot": 2, "channels_per_node": 1000, "ssubscribe_per_inbox": 1}),
		one("list1k", values{"passes": 3, "redis_cpu_us_per_op": 10, "listed": 1000}),
		one("list10k", values{"passes": 2, "redis_cpu_us_per_op": 10, "listed": 10_000}),
		one("list10k-among1m", values{"passes": 2, "redis_cpu_us_per_op": 1010, "listed": 10_000}),
		one("list10k-among100k", values{"passes": 2, "redis_cpu_us_per_op": 110, "listed": 10_000}),
		one("top10k", values{"passes": 1, "list_ms": 1001, "redis_cpu_us_per_op": 100, "listed": 50}),
		one("top100k", values{"passes": 1, "list_ms": 1000, "redis_cpu_us_per_op": 100, "listed": 50}),
		one("connections1", values{"conns_of_first_lock": 1, "cmds_of_first_lock": 11, "conns": 2}),
		one("connections64", values{"conns": 16}),
		one("connections1-cluster", values{"conns_per_node": 1}), one("connections64-cluster", values{"conns_per_node": 8}),
	)
	wantJudged(t, outcomes, map[string]judgement{
		"lost10 lost message: the waiter holds its key after, ms":           {700, report.Met},
		"lost1k lost message: the waiter holds its key after, ms":           {2001, report.Missed},
		"lost10k lost message: the waiter holds its key after, ms":          {3000, report.Met},
		"lost1k exponent of that time":                                      {0.228, report.Missed}, // log 2001/700 / log 100,
		"dead1k dead waiter in front: the next one holds its key after, ms": {4000, report.Met},
		"dead1k exponent of that time":                                      {0, report.Met},
		"inboxes1k channels for each slot in use":                           {2, report.Missed},
		"inboxes100 SSUBSCRIBE for each channel after a loss":               {1.5, report.Missed},
		"inboxes1k exponent of channels of a node":                          {2, report.Missed},
		"list1k passes of SCAN":                                             {3, report.Missed},
		"list10k exponent of the server's time, by locks":                   {1, report.Met},
		"list10k-among100k exponent of the server's time, by other keys":    {1, report.Met},
		"top10k contended locks are found after, ms":                        {1001, report.Missed},
		"top100k contended locks are found after, ms":                       {1000, report.Met},
		"top100k exponent of the server's time, by other keys":              {0, report.Met},
		"connections1 commands for the first lock":                          {11, report.Missed},
		"connections64 connections":                                         {16, report.Missed},
		"connections64 exponent of connections":                             {0.5, report.Met},
		"connections64-cluster exponent of connections to each node":        {0.5, report.Met},
		"connections1-cluster connections to each node":                     {1, report.Met},
	})
}
