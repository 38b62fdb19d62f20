package inproc_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inproc"
)

// A resource is what a lock guards.
type resource struct {
	t       *testing.T
	readers atomic.Int32
	writers atomic.Int32
	token   int64 // of the latest writer; the race detector also watches it
}

func (s *resource) write(h core.Hold) {
	if w, r := s.writers.Add(1), s.readers.Load(); w != 1 || r != 0 {
		s.t.Errorf("%d write and %d read", w, r)
	}
	if h.Token() <= s.token {
		s.t.Errorf("token %d after %d", h.Token(), s.token)
	}
	s.token = h.Token()
	runtime.Gosched()
	s.writers.Add(-1)
}

func (s *resource) read(h core.Hold) {
	s.readers.Add(1)
	if w := s.writers.Load(); w != 0 {
		s.t.Errorf("%d write while others read", w)
	}
	if h.Token() < s.token {
		s.t.Errorf("a reader has token %d after a writer with %d", h.Token(), s.token)
	}
	runtime.Gosched()
	s.readers.Add(-1)
}

func TestWritersExcludeAllOthersWhateverCallsDo(t *testing.T) {
	const goroutines, calls = 16, 1500
	var l inproc.Locks
	s := &resource{t: t}
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			for range calls {
				ctx, cancel := context.WithCancel(context.Background())
				r := &core.Request{Key: key, Mode: core.Read, Wait: core.Forever, Events: arrival(nil)}
				if rand.IntN(3) == 0 {
					r.Mode = core.Write
				}
				switch rand.IntN(4) {
				case 0:
					r.Wait = time.Duration(rand.IntN(100)) * time.Microsecond
				case 1:
					time.AfterFunc(time.Duration(rand.IntN(100))*time.Microsecond, cancel)
				}
				if rand.IntN(4) == 0 {
					r.Place, r.KeepPlace = strconv.Itoa(i/2), time.Millisecond
				}
				use(ctx, &l, s, r)
				cancel()
			}
		})
	}
	wg.Wait()
	deadline := time.Now().Add(10 * time.Second)
	for l.Keys() > 0 && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if n := l.Keys(); n > 0 {
		t.Errorf("%d keys are left", n)
	}
}

// use makes one call and uses what it guards.
func use(ctx context.Context, l *inproc.Locks, s *resource, r *core.Request) {
	h, err := l.Acquire(ctx, r)
	if err != nil {
		return
	}
	if r.Mode != core.Read {
		s.write(h)
		if rand.IntN(2) == 0 {
			_ = h.Downgrade(ctx)
			s.read(h)
		}
	} else {
		s.read(h)
	}
	if _, err := h.Release(0); err != nil {
		s.t.Errorf("Release: %v", err)
	}
}
