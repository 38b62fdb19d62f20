package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// A workload is measured a number of times, each time together with its comparison.
type workload struct {
	name    string
	measure func(ctx context.Context, b *bench) ([]figure, error)
}

// A figure is a result: one value for each round.
type figure struct {
	name   string
	goal   float64 // at most; 0: none
	values []float64
}

func one(name string, goal, value float64) figure { return figure{name, goal, []float64{value}} }

func (f figure) isMet() bool { return f.goal == 0 || median(f.values) <= f.goal }

func (f figure) String() string {
	goal := ""
	if f.goal > 0 {
		goal = "<= " + strconv.FormatFloat(f.goal, 'f', -1, 64)
	}
	if !f.isMet() {
		goal += " missed"
	}
	return fmt.Sprintf("%s\t%.2f\t%s\t%.2f", f.name, median(f.values), goal, f.values)
}

// handler is the duration of most handlers.
const handler = 10 * time.Millisecond

// The busy key's 100 tasks, and other tasks next to them.
var (
	hot    = load{hot: 100, keys: 1, work: handler}
	others = load{others: 400, work: handler}
	beside = load{hot: 100, keys: 1, others: 400, work: handler}
)

var workloads = []workload{
	{"hot", func(ctx context.Context, b *bench) ([]figure, error) {
		serial, got, err := b.pair(ctx, hot, []int{1}, hot)
		if err != nil {
			return nil, err
		}
		return []figure{
			one("time / one after the other", 1.3, got.hot.Seconds()/serial.hot.Seconds()),
			one("attempts without the lock, a task", 2, float64(got.empty)/float64(hot.hot)),
		}, nil
	}},
	{"beside", func(ctx context.Context, b *bench) ([]figure, error) {
		alone, err := b.measure(ctx, others, b.lock, b.workers...)
		if err != nil {
			return nil, err
		}
		serial, got, err := b.pair(ctx, hot, []int{1}, beside)
		if err != nil {
			return nil, err
		}
		return []figure{
			one("busy key: time / one after the other", 1.3, got.hot.Seconds()/serial.hot.Seconds()),
			one("others: time / time alone", 1.25, got.others.Seconds()/alone.others.Seconds()),
			one("attempts without the lock, a task", 2, float64(got.empty)/float64(hot.hot)),
		}, nil
	}},
	{"between", func(ctx context.Context, b *bench) ([]figure, error) {
		got, err := b.measure(ctx, load{hot: 100, keys: 1, work: handler, first: 3000, behind: 3000}, b.lock, b.workers...)
		if err != nil {
			return nil, err
		}
		return []figure{
			one("busy key: its last / the last of all", 0.9, got.hot.Seconds()/max(got.hot, got.others).Seconds()),
			one("attempts without the lock, a task", 2, float64(got.empty)/100),
		}, nil
	}},
	{"flood", func(ctx context.Context, b *bench) ([]figure, error) {
		got, err := b.measure(ctx, load{hot: 10_000, keys: 1, work: handler}, b.lock, b.workers...)
		if err != nil {
			return nil, err
		}
		return []figure{
			one("time / one after the other", 0, got.hot.Seconds()/(10_000*handler).Seconds()),
			one("attempts without the lock, a second", 200, float64(got.empty)/got.hot.Seconds()),
			one("attempts without the lock, a task", 2, float64(got.empty)/10_000),
		}, nil
	}},
	against("keys100", 1.3, load{hot: 10_000, keys: 100, work: 2 * time.Millisecond}),
	against("nothing", 1.5, load{others: 10_000}),
	against("nothing100", 0, load{hot: 10_000, keys: 100}),
	{"short", func(ctx context.Context, b *bench) ([]figure, error) {
		l := load{hot: 500, keys: 1, work: 2 * time.Millisecond}
		serial, got, err := b.pair(ctx, l, []int{1}, l)
		if err != nil {
			return nil, err
		}
		return []figure{
			one("time / one after the other", 0, got.hot.Seconds()/serial.hot.Seconds()),
			one("attempts without the lock, a task", 0, float64(got.empty)/float64(l.hot)),
		}, nil
	}},
	{"idle", idleServers},
	{"lists", lockedLists},
	{"parked", parkedTasks},
}

// against compares a load with the same one without locks.
func against(name string, goal float64, l load) workload {
	return workload{name, func(ctx context.Context, b *bench) ([]figure, error) {
		none, got, err := b.pair(ctx, l, b.workers, l)
		if err != nil {
			return nil, err
		}
		return []figure{one("time / time without locks", goal, max(got.hot, got.others).Seconds()/max(none.hot, none.others).Seconds())}, nil
	}}
}

// pair measures a load without locks, and one with them.
func (b *bench) pair(ctx context.Context, without load, workers []int, with load) (none, got outcome, err error) {
	if none, err = b.measure(ctx, without, "none", workers...); err != nil {
		return none, got, err
	}
	got, err = b.measure(ctx, with, b.lock, b.workers...)
	return none, got, err
}

// repeat measures a workload in rounds.
func (b *bench) repeat(ctx context.Context, w workload, rounds int) (all []figure, err error) {
	for range max(rounds, 1) {
		figures, err := w.measure(ctx, b)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = figures
			continue
		}
		for i, f := range figures {
			all[i].values = append(all[i].values, f.values...)
		}
	}
	return all, nil
}
