package rivermw_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rivermw"
)

func TestAJobThatIsCancelledWhileSnoozedDoesNotRun(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	locks := newLocks(t, redistest.Mini(t))
	hold := occupy(t, locks, "7")
	w, ran := locked(locks, lockmw.WithWait(0), rivermw.WithWaker(d.waker()))
	client := d.start(d.client(w))
	cancelled, next := insert(t, client, "7"), insert(t, client, "7")
	await(t, client, cancelled, "snoozed", isSnoozed)
	await(t, client, next, "snoozed", isSnoozed)
	if _, err := client.JobCancel(t.Context(), cancelled); err != nil {
		t.Fatal(err)
	}
	release(t, hold)
	if id := receive(t, ran); id != next {
		t.Errorf("job %d ran, want %d", id, next)
	}
	awaitState(t, client, next, rivertype.JobStateCompleted)
	awaitState(t, client, cancelled, rivertype.JobStateCancelled)
}

// running returns a worker that runs until its context ends, and the causes.
func running(l lockmw.Locker, opts ...rivermw.Option) (w *worker, began chan int64, causes chan error) {
	w, began = locked(l, opts...)
	causes = make(chan error, 10)
	w.do = func(ctx context.Context, job *river.Job[invoiceArgs]) error {
		began <- job.ID
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	}
	return w, began, causes
}

func isFree(t testing.TB, locks lockmw.Locker, customer string) {
	t.Helper()
	_, hold, err := locks.Lock(t.Context(), lockmw.Key("customer", customer), lockmw.WithWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	release(t, hold)
}

func TestJobCancelEndsAHoldAndAWait(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	locks := newLocks(t, redistest.Mini(t))
	waits := make(chan struct{}, 10)
	w, began, causes := running(locks, lockmw.WithWait(time.Hour), lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { waits <- struct{}{} },
	}))
	client := d.start(d.client(w))
	holder := insert(t, client, "7")
	receive(t, began)
	waiter := insert(t, client, "7")
	receive(t, waits)
	for _, id := range []int64{waiter, holder} {
		if _, err := client.JobCancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		awaitState(t, client, id, rivertype.JobStateCancelled)
	}
	if cause := receive(t, causes); !errors.Is(cause, rivertype.ErrJobCancelledRemotely) {
		t.Errorf("the hold's context ended because of %v", cause)
	}
	isFree(t, locks, "7")
	if len(began) > 0 {
		t.Error("the job that waited ran")
	}
}

func TestAJobsTimeoutEndsItsHold(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	locks := newLocks(t, redistest.Mini(t))
	w, _, causes := running(locks)
	w.timeout = 50 * time.Millisecond
	client := d.start(d.client(w))
	id := insert(t, client, "7", attempts(1))
	if cause := receive(t, causes); !errors.Is(cause, context.DeadlineExceeded) {
		t.Errorf("the hold's context ended because of %v", cause)
	}
	awaitState(t, client, id, rivertype.JobStateDiscarded)
	isFree(t, locks, "7")
}

func TestAHardStopSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	locks := newLocks(t, redistest.Mini(t))
	waits := make(chan struct{}, 10)
	w, began, _ := running(locks, lockmw.WithWait(time.Hour), lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { waits <- struct{}{} },
	}))
	client := d.client(w)
	if err := client.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	ids := []int64{insert(t, client, "7", attempts(1))}
	receive(t, began)
	ids = append(ids, insert(t, client, "7", attempts(1)))
	receive(t, waits)
	if err := client.StopAndCancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	isFree(t, locks, "7")
	for _, id := range ids {
		row := awaitState(t, client, id, rivertype.JobStateAvailable)
		if row.Attempt != 0 || len(row.Errors) > 0 {
			t.Errorf("job %d: attempt %d, errors %v", id, row.Attempt, row.Errors)
		}
	}
	w, ran := locked(locks)
	second := d.start(d.client(w))
	for range ids {
		receive(t, ran)
	}
	for _, id := range ids {
		awaitState(t, second, id, rivertype.JobStateCompleted)
	}
}

// A soft stop ends within the wait of the jobs that wait in their workers.
func TestASoftStopLetsTheHolderFinish(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	locks := newLocks(t, redistest.Mini(t))
	w, began := locked(locks, rivermw.WithWaker(d.waker()))
	finish := make(chan struct{})
	w.do = func(_ context.Context, job *river.Job[invoiceArgs]) error {
		began <- job.ID
		<-finish
		return nil
	}
	client := d.client(w)
	if err := client.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	holder := insert(t, client, "7")
	receive(t, began)
	waiter := insert(t, client, "7")
	await(t, client, waiter, "running", inState(rivertype.JobStateRunning, rivertype.JobStateScheduled))
	stopped := make(chan error, 1)
	go func() { stopped <- client.Stop(context.Background()) }()
	await(t, client, waiter, "snoozed", isSnoozed)
	close(finish)
	if err := receive(t, stopped); err != nil {
		t.Fatal(err)
	}
	awaitState(t, client, holder, rivertype.JobStateCompleted)
	w, ran := locked(locks)
	d.start(d.client(w))
	if id := receive(t, ran); id != waiter {
		t.Errorf("job %d ran, want %d", id, waiter)
	}
}

func TestALostLockFailsTheAttempt(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]error{
		"the worker succeeds": nil,
		"the worker fails":    errors.New("broken"),
		"the worker snoozes":  river.JobSnooze(time.Hour),
		"the worker cancels":  river.JobCancel(errors.New("no")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			s := redistest.Mini(t)
			locks := newLocks(t, s, lockmw.WithLease(100*time.Millisecond))
			w, began, causes := running(locks)
			do := w.do
			w.do = func(ctx context.Context, job *river.Job[invoiceArgs]) error {
				_ = do(ctx, job)
				return result
			}
			client := d.start(d.client(w))
			id := insert(t, client, "7", attempts(1))
			receive(t, began)
			s.Mini.FlushAll()
			if cause := receive(t, causes); !errors.Is(cause, lockmw.ErrLost) {
				t.Errorf("the context ended because of %v", cause)
			}
			row := awaitState(t, client, id, rivertype.JobStateDiscarded)
			if len(row.Errors) != 1 || !strings.Contains(row.Errors[0].Error, "lost") || result != nil && !strings.Contains(row.Errors[0].Error, result.Error()) {
				t.Errorf("errors %v, want the loss and %v", row.Errors, result)
			}
		})
	}
}

func TestAPanicReleasesTheLock(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	locks := newLocks(t, redistest.Mini(t))
	w, _ := locked(locks)
	w.do = func(context.Context, *river.Job[invoiceArgs]) error { panic("a bug") }
	client := d.start(d.client(w))
	id := insert(t, client, "7", attempts(1))
	awaitState(t, client, id, rivertype.JobStateDiscarded)
	isFree(t, locks, "7")
}
