package library_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/test/redistest"
)

func TestSemaphoresAdmitExactlyN(t *testing.T) {
	s := redistest.Redis(t)
	for _, l := range library.All() {
		if !l.Permits {
			continue
		}
		t.Run(l.Name, func(t *testing.T) {
			first, second, key := open(t, l, s.Addr()), open(t, l, s.Addr()), "permits:"+l.Name
			holds := make(map[int]library.Hold)
			for i := range library.Permits {
				hold, err := first.Lock(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				if h, ok := hold.(library.SlotHold); ok {
					i = h.Slot()
				}
				holds[i] = hold
			}
			if len(holds) != library.Permits {
				t.Errorf("%d slots are held, want %d", len(holds), library.Permits)
			}
			got := make(chan error, 1)
			go func() {
				hold, err := second.Lock(t.Context(), key)
				if err == nil {
					err = hold.Unlock()
				}
				got <- err
			}()
			select {
			case err := <-got:
				t.Fatalf("another call got a permit: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			if g, ok := first.(library.Gauge); ok {
				n, waited, err := g.Held(t.Context(), key)
				for err == nil && !waited { // it is in flight
					n, waited, err = g.Held(t.Context(), key)
				}
				if err != nil || n != library.Permits {
					t.Errorf("the server has %d permits held: %v", n, err)
				}
			}
			for _, hold := range holds {
				if err := hold.Unlock(); err != nil {
					t.Error(err)
				}
			}
			if err := <-got; err != nil {
				t.Error(err)
			}
		})
	}
}
