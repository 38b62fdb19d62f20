package tracing_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A lock that is passed on within a process is not written to Redis again.
func TestWaitersOfTheHoldersProcessLinkToTheHolderOthersToTheHoldInRedis(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		m := newTelemetry(t)
		here, elsewhere := usertest.Client(t, s, lockmw.WithObserver(m.observer)), usertest.Client(t, s, lockmw.WithObserver(m.observer))
		_, before := usertest.Lock(t, t.Context(), here, "item:7", lockmw.WithName("before"))
		held, next := make(chan *lockmw.Hold), make(chan struct{})
		for _, name := range []string{"first", "second"} {
			go func() {
				_, hold, err := here.Lock(t.Context(), "item:7", lockmw.WithName(name))
				if err != nil {
					t.Error(err)
				}
				held <- hold
				<-next
				usertest.Unlock(t, hold)
			}()
			synctest.Wait() // until it waits, so that the next is behind it
		}
		time.Sleep(time.Second) // tokens for passing on are those of time that has passed
		usertest.Unlock(t, before)
		first := <-held
		time.Sleep(time.Second)
		next <- struct{}{}
		if second := <-held; second.Token() != first.Token()+1 {
			t.Errorf("token %d was followed by %d: the lock was not passed on here", first.Token(), second.Token())
		}
		usertest.Refused(t, t.Context(), here, "item:7", lockmw.WithName("here"), lockmw.WithWait(0))
		usertest.Refused(t, t.Context(), elsewhere, "item:7", lockmw.WithName("elsewhere"), lockmw.WithWait(0))
		next <- struct{}{}
		synctest.Wait() // for Unlock to return

		for name, holders := range map[string][]string{
			"first": {"before"}, "second": {"before"}, "here": {"second"}, "elsewhere": {"first"},
		} {
			var want, got []string
			for _, h := range holders {
				want = append(want, m.span("acquire_lock "+h).SpanContext().SpanID().String())
			}
			for _, l := range m.span("acquire_lock " + name).Links() {
				got = append(got, l.SpanContext.SpanID().String())
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s links to the spans %v, want %v, of %v", name, got, want, holders)
			}
		}
		m.allEnded()
		m.countersAtZero()
	})
}
