package tracing_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

func TestALockDeletedBeforeUnlockIsLost(t *testing.T) {
	for _, mode := range []string{"exclusive", "write", "read"} {
		t.Run(mode, func(t *testing.T) {
			usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
				m := newTelemetry(t)
				c := usertest.Client(t, s, lockmw.WithObserver(m.observer))
				rw := rwlock.New(c)
				l := map[string]lockmw.Locker{"exclusive": c, "write": rw, "read": rw.RLocker()}[mode]
				_, hold := usertest.Lock(t, t.Context(), l, "item:7")
				if n, err := s.NewClient(t).Del(t.Context(), "lockmw:{item:7}").Result(); n != 1 || err != nil {
					t.Fatalf("deleted %d locks: %v", n, err)
				}
				if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
					t.Errorf("Unlock: %v, want ErrLost", err)
				}

				span := m.span("hold_lock item")
				attrs := attributesOf(span)
				if attrs["distributed_lock.outcome"] != "lost" || attrs["error.type"] != "lock_lost" {
					t.Errorf("attributes: %v", attrs)
				}
				if span.Status().Code != codes.Error {
					t.Errorf("status is %v, want Error", span.Status())
				}
				if points := m.histogram("distributed_lock.hold.duration"); len(points) != 1 ||
					!has(points[0].Attributes, []attribute.KeyValue{outcome("lost"), attribute.String("distributed_lock.mode", mode)}) {
					t.Errorf("hold.duration: %+v", points)
				}
				m.allEnded()
				m.countersAtZero()
			})
		})
	}
}

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
