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

func TestAnUnavailableRedisFailsTheAttemptButDiscardsNoJob(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	s := redistest.Redis(t)
	locks := newLocks(t, s)
	w, ran := locked(locks, lockmw.WithWait(0), rivermw.WithSnooze(100*time.Millisecond, 200*time.Millisecond))
	s.Kill()
	client := d.start(d.client(w, func(c *river.Config) { c.FetchPollInterval = 20 * time.Millisecond }))
	id := insert(t, client, "7", attempts(2))
	row := await(t, client, id, "on its last attempt, and snoozed twice", isSnoozedTimes(2))
	if len(row.Errors) != 1 || !strings.Contains(row.Errors[0].Error, "unavailable") {
		t.Errorf("errors %v, want one of the first attempt", row.Errors)
	}
	s.Restart(t)
	receive(t, ran)
	awaitState(t, client, id, rivertype.JobStateCompleted)
}

func TestAClosedClientSnoozesJobs(t *testing.T) {
	t.Parallel()
	locks := newLocks(t, redistest.Mini(t))
	if err := locks.Close(); err != nil {
		t.Fatal(err)
	}
	err := work(t, rivermw.WithLock(locks, byCustomer), row(`{"customer":"7"}`), never(t))
	if _, ok := errors.AsType[*rivertype.JobSnoozeError](err); !ok || !rivermw.IsBusy(err) {
		t.Errorf("%v, want a snooze", err)
	}
	err = work(t, rivermw.WithLock(locks, byCustomer, rivermw.WithOnBusy(rivermw.Drop)), row(`{"customer":"7"}`), never(t))
	if !errors.Is(err, lockmw.ErrClosed) || rivermw.IsBusy(err) {
		t.Errorf("%v, want ErrClosed", err)
	}
}

// PostgreSQL is stopped while one job runs and others are snoozed. Each job runs once, and none at the same time as another.
func TestARestartOfPostgreSQLLosesNoJob(t *testing.T) {
	t.Parallel()
	d := openDatabase(t, startServer(t), "public")
	locks := newLocks(t, redistest.Redis(t))
	w, began := locked(locks, rivermw.WithWaker(d.waker()), rivermw.WithMaxWaiting(2), rivermw.WithSnooze(time.Second, 2*time.Second))
	j := &journal{}
	finish := make(chan struct{})
	w.do = func(_ context.Context, job *river.Job[invoiceArgs]) error {
		defer j.begin(job)()
		began <- job.ID
		<-finish
		return nil
	}
	client := d.start(d.client(w))
	var ids []int64
	for range 6 {
		ids = append(ids, insert(t, client, "7"))
	}
	receive(t, began)
	await(t, client, ids[5], "snoozed", isSnoozed)
	d.server.Stop(t)
	close(finish) // the job ends, and the next ones begin, without PostgreSQL
	d.server.Restart(t)
	for range ids[1:] {
		receive(t, began)
	}
	for _, id := range ids {
		if row := awaitState(t, client, id, rivertype.JobStateCompleted); len(row.Errors) > 0 {
			t.Errorf("job %d: %v", id, row.Errors)
		}
	}
	if ran := j.check(t); len(ran) != len(ids) {
		t.Errorf("%d runs of %d jobs: %v", len(ran), len(ids), ran)
	}
}

func TestAKilledProcessFreesItsLock(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	s := redistest.Redis(t)
	child := startChild(t, d, s, 3*time.Second)
	client := d.client(&worker{}) // inserts only
	first := insert(t, client, "7", attempts(1))
	if r := nextReport(t, child); r.Job != first || !r.Began {
		t.Fatalf("report %+v", r)
	}
	second := insert(t, client, "7", attempts(1))
	await(t, client, second, "snoozed", isSnoozed) // and only the child would wake it
	child.Kill()
	w, ran := locked(newLocks(t, s), lockmw.WithWait(patience))
	d.start(d.client(w))
	if id := receive(t, ran); id != second {
		t.Errorf("job %d ran, want %d", id, second)
	}
	awaitState(t, client, second, rivertype.JobStateCompleted)
	awaitState(t, client, first, rivertype.JobStateRunning) // until river rescues it, an hour later by default
}

func TestAStoppedProcessLosesItsLock(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	s := redistest.Redis(t)
	child := startChild(t, d, s, time.Second)
	client := d.client(&worker{})
	first := insert(t, client, "7", attempts(1))
	if r := nextReport(t, child); r.Job != first || !r.Began {
		t.Fatalf("report %+v", r)
	}
	child.Pause(t)
	w, ran := locked(newLocks(t, s), lockmw.WithWait(patience))
	second := insert(t, client, "7", attempts(1))
	d.start(d.client(w))
	if id := receive(t, ran); id != second {
		t.Errorf("job %d ran, want %d", id, second)
	}
	child.Resume(t)
	if r := nextReport(t, child); r.Job != first || !r.Lost {
		t.Errorf("report %+v, want a lost lock", r)
	}
	row := awaitState(t, client, first, rivertype.JobStateDiscarded)
	if len(row.Errors) != 1 || !strings.Contains(row.Errors[0].Error, "lost") {
		t.Errorf("errors %v, want the loss", row.Errors)
	}
}
