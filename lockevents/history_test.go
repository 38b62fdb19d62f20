package lockevents_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockevents"
	"github.com/lockmw/go/lockmw"
)

// Pages are of 100 entries.
func TestRecentReadsAsFarBackAsNeeded(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		b := newBook(t, s)
		o := b.Observer()
		for i := range 250 {
			key := "user:42"
			if i > 10 {
				key = "user:43"
			}
			a := lockmw.Attempt{Key: key, Policy: lockmw.Policy{}}
			o.Acquired(o.Start(t.Context(), a), a, lockmw.Acquisition{Waited: time.Duration(i) * time.Millisecond})
			time.Sleep(25 * time.Millisecond)
		}
		events := b.recent("user:42", 5)
		if len(events) != 5 || events[0].Waited != 6*time.Millisecond || events[4].Waited != 10*time.Millisecond {
			t.Errorf("%+v", events)
		}
		if n := len(b.recent("user:43", 1000)); n != 239 {
			t.Errorf("%d events", n)
		}
	})
}

func TestFollowYieldsWhatHappensFromNowOn(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		b := newBook(t, s)
		o := b.Observer()
		happens := func(key, label string) {
			a := lockmw.Attempt{Key: key}
			a.Policy.Label = label
			o.Acquired(o.Start(t.Context(), a), a, lockmw.Acquisition{})
		}
		happens("user:43", "before")
		for b.rdb.XLen(t.Context(), "lockmw:events").Val() == 0 {
			time.Sleep(time.Millisecond)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		following, seen := make(chan struct{}), make(chan lockevents.Event)
		var wg sync.WaitGroup
		wg.Go(func() {
			for e, err := range b.history.Follow(ctx, "user:43") {
				if err != nil {
					t.Error(err)
				}
				seen <- e
			}
		})
		go func() { // Follow begins at some time: until it has, events are none of its
			defer close(following)
			quiet := 1100 * time.Millisecond // at first for longer than a read lasts
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(quiet):
				}
				quiet = 50 * time.Millisecond
				happens("user:42", "")
				happens("user:43", "")
			}
		}()
		for range 3 {
			if e := <-seen; e.Key != "user:43" || e.Kind != lockevents.Acquired || e.Label != "" {
				t.Errorf("%+v", e)
			}
		}
		cancel()
		<-following
		go func() {
			for range seen { // what was on its way
			}
		}()
		wg.Wait()
		close(seen)
		_ = b.Close()
	})
}
