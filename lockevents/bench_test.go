package lockevents_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockevents"
	"github.com/lockmw/go/lockmw"
)

// The extra cost of an uncontended lock whose events are recorded.
func BenchmarkPair(b *testing.B) {
	for _, recorded := range []bool{false, true} {
		name := map[bool]string{false: "alone", true: "recorded"}[recorded]
		b.Run(name, func(b *testing.B) {
			rdb := redistest.Redis(b).NewClient(b)
			events := lockevents.New(usertest.Inspector(b, rdb))
			defer events.Close()
			var opts []lockmw.ClientOption
			if recorded {
				opts = append(opts, lockmw.WithObserver(events.Observer()))
			}
			locks, err := lockmw.New(rdb, opts...)
			if err != nil {
				b.Fatal(err)
			}
			defer locks.Close()
			b.ReportAllocs()
			for b.Loop() {
				_, hold, err := locks.Lock(b.Context(), "item:1")
				if err != nil {
					b.Fatal(err)
				}
				if err := hold.Unlock(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
