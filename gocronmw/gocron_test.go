package gocronmw_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/lockmw/go/gocronmw"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A crew is a group of schedulers, each with a job of the same name.
type crew struct {
	runs, refused, working, together atomic.Int32
}

// start starts a scheduler whose job runs every minute, first after the delay, and takes this long.
func (c *crew) start(t *testing.T, locker gocron.Locker, delay, takes time.Duration) (stop func()) {
	t.Helper()
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		t.Fatal(err)
	}
	job := func(ctx context.Context) error {
		c.runs.Add(1)
		if c.working.Add(1) > 1 {
			c.together.Add(1)
		}
		defer c.working.Add(-1)
		select {
		case <-time.After(takes):
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	_, err = s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(job), gocron.WithName("nightly-report"),
		gocron.WithStartAt(gocron.WithStartDateTime(time.Now().Add(time.Minute+delay))),
		gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
			c.refused.Add(1)
			if !errors.Is(err, lockmw.ErrBusy) {
				t.Error(err)
			}
		})))
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	return func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	}
}

// after lets the bubble's time pass and compares.
func (c *crew) after(t *testing.T, d time.Duration, runs, refused int32) {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	if c.runs.Load() != runs || c.refused.Load() != refused || c.together.Load() != 0 {
		t.Errorf("%d runs, %d refused, %d together; want %d, %d and 0", c.runs.Load(), c.refused.Load(), c.together.Load(), runs, refused)
	}
}

func TestOneSchedulerRunsAJobAtATime(t *testing.T) {
	race.InBubble(t, func(t *testing.T) {
		c, locks := new(crew), gocronmw.NewLocker(lockmw.NewLocal())
		for i := range 3 {
			defer c.start(t, locks, time.Duration(i)*time.Second, 10*time.Second)()
		}
		c.after(t, 10*time.Minute+30*time.Second, 10, 20)
	})
}

// If clocks differ by more than the job takes, each scheduler runs it. A minimum hold prevents that.
func TestAShortJobOfSchedulersWhoseClocksDiffer(t *testing.T) {
	for name, test := range map[string]struct {
		options       []lockmw.Option
		runs, refused int32
	}{
		"without a minimum hold": {nil, 20, 0},
		"with one":               {[]lockmw.Option{lockmw.WithMinHold(30 * time.Second)}, 10, 10},
	} {
		t.Run(name, func(t *testing.T) {
			race.InBubble(t, func(t *testing.T) {
				c, locks := new(crew), gocronmw.NewLocker(lockmw.NewLocal(), test.options...)
				for i := range 2 {
					defer c.start(t, locks, time.Duration(i)*5*time.Second, time.Second)()
				}
				c.after(t, 10*time.Minute+30*time.Second, test.runs, test.refused)
			})
		})
	}
}

func TestAJobMayTakeLongerThanItsLease(t *testing.T) {
	race.InBubble(t, func(t *testing.T) {
		server, c := redistest.Piped(t), new(crew)
		for i := range 2 {
			locks, err := lockmw.New(server.NewClient(t), lockmw.WithLease(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = locks.Close()
				time.Sleep(2 * time.Second) // bubble time: go-redis checks once a second whether it was closed
			}()
			defer c.start(t, gocronmw.NewLocker(locks), time.Duration(i)*30*time.Second, 150*time.Second)()
		}
		// The first begins after 60 s and works until 210 s. Its own runs at 120 and 180 s are refused, and so are the
		// second one's at 90, 150 and 210 s, unless that one is just in time.
		c.after(t, 209*time.Second, 1, 4)
	})
}

// gocron's context of a job is not the lock's context. Only Unlock reports a loss, and gocron drops its error.
func TestAJobIsNotToldOfALoss(t *testing.T) {
	race.InBubble(t, func(t *testing.T) {
		c, local := new(crew), lockmw.NewLocal()
		defer c.start(t, gocronmw.NewLocker(local), 0, 10*time.Second)()
		defer c.start(t, gocronmw.NewLocker(local), 2*time.Second, 10*time.Second)()
		time.Sleep(61 * time.Second)
		local.Expire("job:nightly-report")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if c.together.Load() != 1 {
			t.Error("the job was told, or the other one did not begin")
		}
	})
}

// A job that must notice a loss, or needs the fencing token, takes the lock itself.
func TestAJobThatTakesTheLockItselfIsToldOfALoss(t *testing.T) {
	race.InBubble(t, func(t *testing.T) {
		local, lost := lockmw.NewLocal(), make(chan error, 1)
		report := lockmw.WithLock(local, lockmw.Const[string]("job", "nightly-report"), func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		s, err := gocron.NewScheduler()
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(report, "sales"),
			gocron.WithEventListeners(gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { lost <- err })))
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		time.Sleep(61 * time.Second)
		local.Expire("job:nightly-report")
		if err := <-lost; !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("the job returned %v", err)
		}
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	})
}

// startElected starts a scheduler whose job runs every minute while its Elector leads.
func startElected(t *testing.T, e *gocronmw.Elector, runs *atomic.Int32) (stop func()) {
	t.Helper()
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(e))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(func() { runs.Add(1) })); err != nil {
		t.Fatal(err)
	}
	s.Start()
	return func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		e.Close()
	}
}

func TestTheSchedulerThatLeadsRunsAllJobs(t *testing.T) {
	race.InBubble(t, func(t *testing.T) {
		local := lockmw.NewLocal()
		var runs [2]atomic.Int32
		first := gocronmw.Elect(t.Context(), local, "lead:cron")
		synctest.Wait()
		second := gocronmw.Elect(t.Context(), local, "lead:cron")
		stopFirst := startElected(t, first, &runs[0])
		defer startElected(t, second, &runs[1])()
		time.Sleep(150 * time.Second)
		if err := second.IsLeader(t.Context()); !errors.Is(err, lockmw.ErrNotHeld) {
			t.Errorf("the second one: %v, want ErrNotHeld", err)
		}
		stopFirst() // now the other one leads
		time.Sleep(2 * time.Minute)
		if runs[0].Load() != 2 || runs[1].Load() != 2 {
			t.Errorf("%d and %d runs, want 2 and 2", runs[0].Load(), runs[1].Load())
		}
		if err := first.IsLeader(t.Context()); !errors.Is(err, context.Canceled) {
			t.Errorf("the first one: %v, want the end of its context", err)
		}
	})
}

func TestASchedulerThatLostItsLockIsNoLeader(t *testing.T) {
	race.InBubble(t, func(t *testing.T) {
		local := lockmw.NewLocal()
		e := gocronmw.Elect(t.Context(), local, "lead:cron")
		defer e.Close()
		synctest.Wait()
		if err := e.IsLeader(t.Context()); err != nil {
			t.Fatal(err)
		}
		local.Expire("lead:cron")
		if err := e.IsLeader(t.Context()); !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("after the loss: %v, want ErrLost", err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if err := e.IsLeader(t.Context()); err != nil {
			t.Errorf("it does not lead again: %v", err)
		}
	})
}

// gocron.WithContext may give all runs of a job a context with a hold of the lock.
func TestRunsOfAJobDoNotShareAHoldOfTheirContext(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	ctx, hold, err := local.Lock(t.Context(), "job:nightly-report")
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Unlock()
	if _, err := gocronmw.NewLocker(local).Lock(ctx, "nightly-report"); !errors.Is(err, lockmw.ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
}

func TestMistakesPanicWhenTheSchedulerStarts(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(){
		"no Locker":         func() { gocronmw.NewLocker(nil) },
		"an invalid option": func() { gocronmw.NewLocker(lockmw.NewLocal(), lockmw.WithLease(-1)) },
	} {
		if usertest.Recovered(f) == nil {
			t.Errorf("%s: no panic", name)
		}
	}
}

// Two replicas are two processes with a Client each.
func TestTwoReplicasRunAJobOnceAtEachTime(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		c := new(crew)
		for range 2 {
			locks := gocronmw.NewLocker(usertest.Client(t, s), lockmw.WithMinHold(30*time.Second))
			defer c.start(t, locks, 0, time.Second)()
		}
		c.after(t, 10*time.Minute+30*time.Second, 10, 10)
	})
}

// The options of Elect are checked when it asks for the lock.
func TestAnElectionThatCannotBeginIsReported(t *testing.T) {
	t.Parallel()
	e := gocronmw.Elect(t.Context(), lockmw.NewLocal().RLocker(), "lead:cron")
	defer e.Close()
	usertest.Eventually(t, "the election ends", time.Minute, func() bool {
		return errors.Is(e.IsLeader(t.Context()), lockmw.ErrInvalidOption)
	})
}

// Credentials are changed, for example, and Redis refuses for a moment.
func TestAnElectorTakesPartAgainAfterARefusal(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		s.Mini.SetError("NOPERM this user has no permissions to run the 'evalsha' command")
		log := &usertest.Output{}
		e := gocronmw.Elect(t.Context(), usertest.Client(t, s, lockmw.WithLogger(log.Logger())), "lead:cron")
		defer e.Close()
		time.Sleep(time.Minute)
		if err := e.IsLeader(t.Context()); !errors.Is(err, lockmw.ErrUnavailable) || !strings.Contains(log.String(), "the election failed") {
			t.Errorf("during the refusal: %v; logged: %s", err, log)
		}
		s.Mini.SetError("")
		time.Sleep(time.Minute)
		if err := e.IsLeader(t.Context()); err != nil {
			t.Errorf("after the refusal: %v", err)
		}
	})
}

// The options stay as they were, whatever becomes of the caller's slice.
func TestALockerHasItsOwnOptions(t *testing.T) {
	race.InBubble(t, func(t *testing.T) {
		locks, opts := lockmw.NewLocal(), make([]lockmw.Option, 0, 1)
		locker := gocronmw.NewLocker(locks, opts...)
		_ = append(opts, lockmw.WithWait(time.Hour))
		lock, err := locker.Lock(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := locker.Lock(ctx, "report"); !errors.Is(err, lockmw.ErrBusy) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second run: %v, want ErrBusy", err)
		}
		if err := lock.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
