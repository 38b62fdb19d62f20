package asynqmw_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A producer may choose the ID and the headers of a task. They do not give it the place of another task.
func TestATaskThatClaimsToBeACopyHasAPlaceOfItsOwn(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	var log usertest.Output
	fair := fairlock.New(usertest.Client(t, s, lockmw.WithLogger(log.Logger())))
	q := newQueue(t, queueOn(s))
	release := usertest.Occupy(t, fair, "item:7")

	// The victim is put back, and a request waits behind it.
	away, waits := make(chan struct{}, 1), make(chan int, 1)
	kept := asynqmw.WithPlaceKept(3 * time.Hour)
	victim := asynqmw.WithLock(fair, byItem, kept, lockmw.WithWait(0), asynqmw.WithRequeueDelay(time.Hour, time.Hour),
		lockmw.WithObserver(&lockmw.Observer{Failed: func(context.Context, lockmw.Attempt, error) { away <- struct{}{} }}))
	shutdown := startServer(t, queueOn(s), quick(), victim(never(t)))
	q.fulfil("7", asynq.TaskID("victim"))
	receive(t, away)
	q.await("victim", asynq.TaskStateRetry)
	shutdown()
	request := enqueue(t, fair, "item:7")
	receive(t, request.position)

	forger := asynqmw.WithLock(fair, byItem, kept, lockmw.WithWait(time.Minute),
		lockmw.WithObserver(&lockmw.Observer{Contended: func(_ context.Context, _ lockmw.Attempt, c lockmw.Contention) { waits <- c.Position }}))
	startServer(t, queueOn(s), quick(), forger(handle(func(context.Context) error { return nil })))
	const mark = "1-ABCDEFGH"
	q.enqueue(asynq.NewTaskWithHeaders("order:fulfil", []byte(`{"Item":"7"}`), map[string]string{"lockmw-rescued": mark}), asynq.TaskID("victim~"+mark), asynq.Retention(time.Hour))
	if position := receive(t, waits); position != 2 {
		t.Errorf("the task is at position %d, want 2: the place before the request is the victim's", position)
	}
	release()
	receive(t, request.granted)()
	q.await("victim~"+mark, asynq.TaskStateCompleted)
	if !strings.Contains(log.String(), "claims to be a copy") {
		t.Errorf("the log is %s", log.String())
	}
}
