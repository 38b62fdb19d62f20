package asynqmw_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// Dragonfly refuses undeclared keys by default. An operator may have allowed them for the scripts of asynq only, by their hashes. A
// park uses none if no other task waits, so the first refusal is that of a wake.
func TestTasksRunOnAServerThatRefusesUndeclaredKeys(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		q, log, rdb := newQueue(t, queueOn(s)), &usertest.Output{}, s.NewClient(t)
		redistest.RefuseUndeclaredKeys(rdb)
		locks := usertest.ClientOf(t, rdb, lockmw.WithLogger(log.Logger()))
		_, hold := usertest.Lock(t, t.Context(), locks, "item:7")
		var ran atomic.Int32
		h := handle(func(context.Context) error { ran.Add(1); return nil })
		startServer(t, queueOn(s), quick(), asynqmw.WithLock(locks, byItem)(h))
		ids := []string{q.fulfil("7")}
		q.awaitParked(ids...)
		usertest.Unlock(t, hold)
		eventually(t, func() bool { return log.Len() > 0 })

		_, hold = usertest.Lock(t, t.Context(), locks, "item:7")
		late := []string{q.fulfil("7"), q.fulfil("7")}
		for _, id := range late {
			if info := q.await(id, asynq.TaskStateRetry); !strings.HasPrefix(info.LastErr, "asynqmw: queued again:") {
				t.Errorf("its last error is %q", info.LastErr)
			}
		}
		usertest.Unlock(t, hold)
		ids = append(ids, late...)
		eventually(t, func() bool {
			_, _ = q.inspector.RunAllRetryTasks("default") // immediately, not by the clock
			return int(ran.Load()) == len(ids)
		})
		q.awaitDone(ids...)
		text := log.String()
		for _, want := range []string{"come back after a delay", "allow undeclared keys on the server", "script tried accessing undeclared key"} {
			if strings.Count(text, want) != 1 {
				t.Errorf("%q is not in the log once: %s", want, text)
			}
		}
	})
}
