package rivermw_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rivermw"
)

// locked returns a worker that reports the jobs that it runs.
func locked(l lockmw.Locker, opts ...rivermw.Option) (*worker, chan int64) {
	ran := make(chan int64, 1000)
	return &worker{
		middleware: []rivertype.WorkerMiddleware{rivermw.WithLock(l, byCustomer, opts...)},
		do: func(_ context.Context, job *river.Job[invoiceArgs]) error {
			ran <- job.ID
			return nil
		},
	}, ran
}

func TestASnoozedJobIsWokenWhenItsLockIsFree(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		d := newDatabase(t)
		locks, other := newLocks(t, s), newLocks(t, s)
		hold := occupy(t, other, "7")
		w, ran := locked(locks, lockmw.WithWait(0), rivermw.WithWaker(d.waker()))
		client := d.start(d.client(w, func(c *river.Config) { c.FetchPollInterval = time.Hour })) // only a notification makes it fetch
		id := insert(t, client, "7", attempts(1))                                                 // its last attempt
		row := await(t, client, id, "snoozed", isSnoozed)
		if row.Attempt != 0 || row.MaxAttempts != 1 || len(row.Errors) != 0 {
			t.Errorf("a snooze has spent an attempt: %d of %d, %v", row.Attempt, row.MaxAttempts, row.Errors)
		}
		if wait := time.Until(row.ScheduledAt); wait < 5*time.Second {
			t.Fatalf("it comes back by the clock after %v, so the test shows nothing", wait)
		}
		released := time.Now()
		release(t, hold)
		receive(t, ran)
		t.Logf("from the release to the worker: %v", time.Since(released))
		if row := awaitState(t, client, id, rivertype.JobStateCompleted); row.Attempt != 1 || row.MaxAttempts != 1 {
			t.Errorf("completed on attempt %d of %d, want 1 of 1", row.Attempt, row.MaxAttempts)
		}
	})
}

func TestWithoutAWakerASnoozedJobComesBackByTheClock(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	locks := lockmw.NewLocal()
	hold := occupy(t, locks, "7")
	w, ran := locked(locks, lockmw.WithWait(0), rivermw.WithSnooze(time.Millisecond, 10*time.Millisecond))
	client := d.start(d.client(w, func(c *river.Config) { c.FetchPollInterval = 20 * time.Millisecond }))
	id := insert(t, client, "7")
	await(t, client, id, "snoozed 3 times", isSnoozedTimes(3))
	release(t, hold)
	receive(t, ran)
	row := awaitState(t, client, id, rivertype.JobStateCompleted)
	if !strings.Contains(string(row.Metadata), `"lockmw_snoozes": 0`) {
		t.Errorf("the count of snoozes is not reset: %s", row.Metadata)
	}
}

func TestAJobFirstWaitsInItsWorker(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	locks := newLocks(t, redistest.Mini(t))
	hold := occupy(t, locks, "7")
	waiting := make(chan struct{}, 1)
	w, ran := locked(locks, lockmw.WithWait(time.Hour), lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { waiting <- struct{}{} },
	}))
	w.timeout = time.Hour
	ends := make(chan time.Time, 1)
	do := w.do
	w.do = func(ctx context.Context, job *river.Job[invoiceArgs]) error {
		end, _ := ctx.Deadline()
		ends <- end
		return do(ctx, job)
	}
	client := d.start(d.client(w))
	id := insert(t, client, "7")
	receive(t, waiting)
	released := time.Now()
	release(t, hold)
	receive(t, ran)
	if end := receive(t, ends); end.Before(released.Add(w.timeout)) {
		t.Errorf("the wait has used up %v of the job's timeout", released.Add(w.timeout).Sub(end))
	}
	if row := awaitState(t, client, id, rivertype.JobStateCompleted); strings.Contains(string(row.Metadata), "snoozes") {
		t.Errorf("it was snoozed: %s", row.Metadata)
	}
}

func TestFewJobsWaitInTheirWorkers(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	locks := lockmw.NewLocal()
	hold := occupy(t, locks, "hot")
	defer release(t, hold)
	w, ran := locked(locks, lockmw.WithWait(time.Hour), rivermw.WithMaxWaiting(1))
	client := d.start(d.client(w, func(c *river.Config) { c.Queues[river.QueueDefault] = river.QueueConfig{MaxWorkers: 2} }))
	for range 5 {
		insert(t, client, "hot")
	}
	cold := insert(t, client, "cold")
	if id := receive(t, ran); id != cold {
		t.Errorf("job %d ran, want %d", id, cold)
	}
}

// river stores a snooze some time after the attempt. Until then JobRetry has no effect.
func TestAJobIsWokenAlthoughItsSnoozeIsStoredLate(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	locks := newLocks(t, redistest.Mini(t))
	hold := occupy(t, locks, "7")
	waker := d.waker()
	w, ran := locked(locks, lockmw.WithWait(0), rivermw.WithWaker(waker), rivermw.WithSnooze(time.Hour, time.Hour))
	client := d.start(d.client(w))
	insert(t, client, "7")
	eventually(t, func() error {
		if rivermw.Parked(waker) == 0 {
			return errors.New("no job is snoozed")
		}
		return nil
	})
	release(t, hold)
	receive(t, ran)
}

func TestANewJobDoesNotWaitAheadOfASnoozedOne(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	locks := newLocks(t, redistest.Mini(t))
	hold := occupy(t, locks, "7")
	var waited atomic.Int32
	w, ran := locked(locks, lockmw.WithWait(time.Second/2), rivermw.WithWaker(d.waker()), lockmw.WithObserver(&lockmw.Observer{
		Contended: func(ctx context.Context, a lockmw.Attempt, _ lockmw.Contention) {
			if a.Policy.Label != "river-waker" {
				waited.Add(1)
			}
		},
	}))
	client := d.start(d.client(w))
	first := insert(t, client, "7")
	await(t, client, first, "snoozed", isSnoozed)
	second := insert(t, client, "7")
	await(t, client, second, "snoozed", isSnoozed)
	if n := waited.Load(); n != 1 {
		t.Errorf("%d jobs waited in their workers, want 1", n)
	}
	release(t, hold)
	receive(t, ran)
	receive(t, ran)
}

func TestSnoozedJobsRunInTheirOrder(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	locks := lockmw.NewLocal() // the Waker holds it only for an instant, so a woken job finds it free
	hold := occupy(t, locks, "7")
	waker := d.waker()
	rivermw.SetOnTheWay(waker, time.Hour)
	w, ran := locked(locks, rivermw.WithMaxWaiting(0), rivermw.WithWaker(waker), rivermw.WithSnooze(time.Hour, time.Hour))
	client := d.start(d.client(w))
	var ids []int64
	for range 20 {
		ids = append(ids, insert(t, client, "7"))
	}
	for _, id := range ids {
		await(t, client, id, "snoozed", isSnoozed)
	}
	release(t, hold)
	var order []int64
	for range ids {
		order = append(order, receive(t, ran))
	}
	if !slices.Equal(order, ids) {
		t.Errorf("ran in the order %v, want %v", order, ids)
	}
}

// The request joins the queue of the lock later than the job.
func TestAKeptPlaceGoesBeforeALaterCall(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	fair := fairlock.New(newLocks(t, redistest.Mini(t)))
	hold := occupy(t, fair, "7")
	jobWaits := make(chan struct{}, 1000)
	w, _ := locked(fair, rivermw.WithSnooze(time.Millisecond, 20*time.Millisecond), rivermw.WithPlaceKept(time.Minute),
		lockmw.WithWait(3*time.Second), lockmw.WithObserver(&lockmw.Observer{
			Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { jobWaits <- struct{}{} },
		}))
	order := make(chan string, 2)
	w.do = func(context.Context, *river.Job[invoiceArgs]) error {
		order <- "job"
		return nil
	}
	client := d.start(d.client(w, func(c *river.Config) { c.FetchPollInterval = 20 * time.Millisecond }))
	id := insert(t, client, "7")
	await(t, client, id, "snoozed", isSnoozed)
	waits, done := make(chan struct{}), make(chan error, 1)
	go func() {
		_, hold, err := fair.Lock(context.Background(), lockmw.Key("customer", "7"), lockmw.WithObserver(&lockmw.Observer{
			Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { close(waits) },
		}))
		order <- "request"
		done <- errors.Join(err, hold.Unlock())
	}()
	receive(t, waits)
	for len(jobWaits) > 0 { // of earlier attempts
		<-jobWaits
	}
	receive(t, jobWaits) // a running job may not wait yet, and the lock passes over a place without a call
	release(t, hold)
	if first := receive(t, order); first != "job" {
		t.Errorf("the %s ran first", first)
	}
	if err := receive(t, done); err != nil {
		t.Error(err)
	}
}

func TestActionsForAJobWithABusyLock(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		opts  []rivermw.Option
		state rivertype.JobState
		text  string
	}{
		{"Drop", []rivermw.Option{rivermw.WithOnBusy(rivermw.Drop)}, rivertype.JobStateCompleted, ""},
		{"Cancel", []rivermw.Option{rivermw.WithOnBusy(rivermw.Cancel)}, rivertype.JobStateCancelled, "its lock is busy"},
		{"Fail", []rivermw.Option{rivermw.WithOnBusy(rivermw.Fail)}, rivertype.JobStateDiscarded, "lock is busy"},
		{"too many snoozes", []rivermw.Option{rivermw.WithMaxSnoozes(2), rivermw.WithSnooze(1, 1)}, rivertype.JobStateDiscarded, "snoozed 2 times already"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			locks := lockmw.NewLocal()
			defer release(t, occupy(t, locks, "7"))
			w, ran := locked(locks, append(tt.opts, lockmw.WithWait(0))...)
			d := newDatabase(t)
			client := d.start(d.client(w, func(c *river.Config) { c.FetchPollInterval = 20 * time.Millisecond }))
			id := insert(t, client, "7", attempts(1))
			row := awaitState(t, client, id, tt.state)
			if text := fmt.Sprint(row.Errors); tt.text != "" && !strings.Contains(text, tt.text) {
				t.Errorf("errors %s, want %q", text, tt.text)
			}
			select {
			case <-ran:
				t.Error("the worker ran")
			default:
			}
		})
	}
}

func TestADeadlockSnoozesOneOfTheJobs(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	locks := newLocks(t, redistest.Mini(t))
	var met sync.WaitGroup
	met.Add(2)
	var begun atomic.Int32
	w, ran := locked(locks, lockmw.WithWait(0), rivermw.WithWaker(d.waker()))
	do := w.do
	tries := make(chan error, 10)
	w.do = func(ctx context.Context, job *river.Job[invoiceArgs]) error {
		if begun.Add(1) <= 2 {
			met.Done()
			met.Wait()
		}
		other := map[string]string{"1": "2", "2": "1"}[job.Args.Customer]
		_, hold, err := locks.Lock(ctx, lockmw.Key("customer", other), lockmw.WithDeadlockDetection(10*time.Millisecond))
		tries <- err
		if err != nil {
			return river.JobSnooze(time.Millisecond)
		}
		defer func() { _ = hold.Unlock() }()
		return do(ctx, job)
	}
	client := d.start(d.client(w))
	insert(t, client, "1")
	insert(t, client, "2")
	if first, second := receive(t, ran), receive(t, ran); first == second {
		t.Errorf("job %d ran twice", first)
	}
	if err := receive(t, tries); !errors.Is(err, lockmw.ErrDeadlock) {
		t.Errorf("the first call ended with %v, want a deadlock", err)
	}
}

// A job keeps its unique key while it is snoozed.
func TestASnoozedJobStaysUnique(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	locks := newLocks(t, redistest.Mini(t))
	hold := occupy(t, locks, "7")
	w, ran := locked(locks, lockmw.WithWait(0), rivermw.WithWaker(d.waker()))
	client := d.start(d.client(w))
	unique := &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}}
	first, err := client.Insert(t.Context(), invoiceArgs{Customer: "7"}, unique)
	if err != nil {
		t.Fatal(err)
	}
	await(t, client, first.Job.ID, "snoozed", isSnoozed)
	second, err := client.Insert(t.Context(), invoiceArgs{Customer: "7"}, unique)
	if err != nil || !second.UniqueSkippedAsDuplicate || second.Job.ID != first.Job.ID {
		t.Errorf("a duplicate of a snoozed job was inserted (%v)", err)
	}
	release(t, hold)
	receive(t, ran)
	awaitState(t, client, first.Job.ID, rivertype.JobStateCompleted)
}
