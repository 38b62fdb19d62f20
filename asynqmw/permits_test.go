package asynqmw_test

import (
	"context"
	"testing"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/semaphore"
)

func TestATaskWithoutAPermitIsParkedAndWoken(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		q := newQueue(t, queueOn(s))
		others := semaphore.New(usertest.Client(t, s), 2)
		_, first := usertest.Lock(t, t.Context(), others, "item:7")
		_, second := usertest.Lock(t, t.Context(), others, "item:7")
		t.Cleanup(func() { _ = second.Unlock() })
		startServer(t, queueOn(s), parked(4), asynqmw.WithLock(semaphore.New(usertest.Client(t, s), 2), byItem)(
			handle(func(context.Context) error { return nil })))
		one, two := q.fulfil("7"), q.fulfil("7")
		q.awaitParked(one, two)
		if err := first.Unlock(); err != nil { // the other permit stays taken, so no check finds the key free
			t.Fatal(err)
		}
		q.awaitDone(one, two)
		nothingParked(t, s.NewClient(t))
	})
}
