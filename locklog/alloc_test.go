package locklog_test

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/locklog"
	"github.com/lockmw/go/lockmw"
)

// Observers by what they cost.
func observers() map[string]*lockmw.Observer {
	logger := slog.New(slog.NewJSONHandler(io.Discard, nil)) //nolint:sloglint // lines are to be written
	return map[string]*lockmw.Observer{
		"empty":    {},
		"disabled": locklog.New(slog.New(slog.DiscardHandler), locklog.WithSlowWait(0), locklog.WithLongHold(0)),
		"quiet":    locklog.New(logger),
		"default":  locklog.New(nil),
		"lines":    locklog.New(logger, locklog.WithSlowWait(0), locklog.WithLongHold(0)),
	}
}

func uncontended(o *lockmw.Observer) func() { return usertest.Uncontended(lockmw.WithObserver(o)) }

// busy tries a lock that is held.
func busy(o *lockmw.Observer) func() {
	local := lockmw.NewLocal()
	ctx := context.Background()
	if _, _, err := local.Lock(ctx, "item:7"); err != nil {
		panic(err)
	}
	opts := []lockmw.Option{lockmw.WithObserver(o), lockmw.WithWait(0)}
	return func() {
		if _, _, err := local.Lock(ctx, "item:7", opts...); err == nil {
			panic("the lock is not busy")
		}
	}
}

// handedOver waits for a lock, for a short time.
func handedOver(o *lockmw.Observer) func() {
	if o.Start == nil {
		return func() {}
	}
	a := lockmw.Attempt{Key: "item:7", Name: "item", Op: "lock", Mode: "exclusive"}
	holders := []lockmw.Holder{{Owner: "0123456789abcdef"}}
	return func() {
		ctx := o.Start(context.Background(), a)
		o.Contended(ctx, a, lockmw.Contention{Holders: holders, Position: 1, Waiters: 1})
		ctx = o.Acquired(ctx, a, lockmw.Acquisition{Waited: 1, Contended: true})
		o.Renewed(ctx, a, nil)
		o.Released(ctx, a, lockmw.Release{Held: 1})
	}
}

func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	all := observers()
	for what, run := range map[string]func(*lockmw.Observer) func(){
		"uncontended": uncontended, "busy": busy, "handed over": handedOver,
	} {
		empty := testing.AllocsPerRun(1000, run(all["empty"]))
		for name, most := range map[string]float64{"disabled": 0, "quiet": 1, "default": 1} {
			if got := testing.AllocsPerRun(1000, run(all[name])) - empty; got > most {
				t.Errorf("%s, %s: %v allocations more than without observer, want at most %v", what, name, got, most)
			}
		}
	}
}

func BenchmarkCallbacks(b *testing.B) {
	for name, o := range observers() {
		b.Run(name, func(b *testing.B) {
			run := handedOver(o)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}

func BenchmarkUncontended(b *testing.B) {
	for name, o := range observers() {
		b.Run(name, func(b *testing.B) {
			run := uncontended(o)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}
