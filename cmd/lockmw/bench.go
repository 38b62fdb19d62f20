package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/lockmw"
)

// A benchmark is one run of `lockmw bench`.
type benchmark struct {
	*command
	duration   time.Duration
	goroutines int
}

func (c *command) bench() *cobra.Command {
	b := &benchmark{command: c}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the speed of locks on this Redis, from this machine",
		Long: `Takes and releases locks for a while and prints the locks per second and the time of each: one goroutine alone, many goroutines
with a key each, and many goroutines with one key, plain and fair.

Do not run it on a busy production server: it puts load on Redis. The keys are below the prefix and expire by themselves.`,
		Example: `  lockmw bench --duration 5s --goroutines 8`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case b.duration < 10*time.Millisecond || b.duration > time.Hour:
				return usage("--duration: from 10ms to 1h")
			case b.goroutines < 1 || b.goroutines > 10_000:
				return usage("--goroutines: from 1 to 10000")
			}
			return b.run(cmd.Context())
		},
	}
	cmd.Flags().DurationVar(&b.duration, "duration", 2*time.Second, "duration of each measurement")
	cmd.Flags().IntVar(&b.goroutines, "goroutines", 32, "number of goroutines that take locks at the same time")
	return cmd
}

// A benchRecord is one measurement as --json prints it. Times are from the call of Lock to the end of Unlock.
type benchRecord struct {
	Work       string  `json:"work"` // alone, own_keys, one_key or one_key_fair
	Goroutines int     `json:"goroutines"`
	PerSecond  float64 `json:"locks_per_second"`
	Median     float64 `json:"median_ms"`
	P99        float64 `json:"p99_ms"`
	Longest    float64 `json:"longest_ms"`
}

func (b *benchmark) run(ctx context.Context) error {
	if _, err := b.connect(ctx); err != nil {
		return err
	}
	locks, err := lockmw.New(b.conn.client, append(b.layout(b.prefix), lockmw.WithLogger(slog.New(slog.DiscardHandler)),
		lockmw.WithWait(time.Minute))...)
	if err != nil {
		return err
	}
	defer locks.Close()
	fair := fairlock.New(locks)
	if !b.json {
		printf(b.out, "%-30s %10s %10s %10s %10s\n", "", "locks/s", "median", "99 %", "longest")
	}
	for _, w := range []struct {
		name, text string
		locks      lockmw.Locker
		goroutines int
		oneKey     bool
	}{
		{"alone", "1 goroutine", locks, 1, true},
		{"own_keys", fmt.Sprintf("%d goroutines, a key each", b.goroutines), locks, b.goroutines, false},
		{"one_key", fmt.Sprintf("%d goroutines, one key", b.goroutines), locks, b.goroutines, true},
		{"one_key_fair", fmt.Sprintf("%d goroutines, one key, fair", b.goroutines), fair, b.goroutines, true},
	} {
		r, err := b.measure(ctx, w.locks, w.goroutines, w.oneKey)
		if err == nil {
			r.Work = w.name
			err = b.line(&r, func() {
				printf(b.out, "%-30s %10.0f %7.2f ms %7.2f ms %7.1f ms\n", w.text, r.PerSecond, r.Median, r.P99, r.Longest)
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// measure runs goroutines that take and release locks for b.duration.
func (b *benchmark) measure(ctx context.Context, l lockmw.Locker, goroutines int, oneKey bool) (benchRecord, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	run := rand.Text()
	_, probe, err := l.Lock(ctx, lockmw.Key("bench", run), lockmw.WithWait(0)) // fails immediately if Redis is unavailable
	if err == nil {
		err = probe.Unlock()
	}
	if err != nil {
		return benchRecord{}, err
	}
	times := hdrhistogram.New(1, time.Hour.Microseconds(), 3) // us
	var mu sync.Mutex
	var wg sync.WaitGroup
	begun := time.Now()
	for i := range goroutines {
		key := lockmw.Key("bench", run)
		if !oneKey {
			key = lockmw.Key("bench", run, strconv.Itoa(i))
		}
		wg.Go(func() {
			mine := hdrhistogram.New(1, time.Hour.Microseconds(), 3)
			for time.Since(begun) < b.duration && ctx.Err() == nil {
				asked := time.Now()
				_, hold, err := l.Lock(ctx, key)
				if err == nil {
					err = hold.Unlock()
				}
				if err != nil {
					cancel(err)
					break
				}
				_ = mine.RecordValue(time.Since(asked).Microseconds()) // no wait lasts an hour
			}
			mu.Lock()
			defer mu.Unlock()
			times.Merge(mine)
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return benchRecord{}, err
	}
	took := time.Since(begun).Seconds()
	ms := func(us int64) float64 { return float64(us) / 1000 }
	return benchRecord{
		Goroutines: goroutines, PerSecond: float64(int(float64(times.TotalCount())/took*10)) / 10,
		Median: ms(times.ValueAtQuantile(50)), P99: ms(times.ValueAtQuantile(99)), Longest: ms(times.Max()),
	}, nil
}
