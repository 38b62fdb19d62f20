package cronmw_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockmw/go/cronmw"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// ticks records how the ticks of several replicas end.
type ticks struct {
	mu     sync.Mutex
	ran    []time.Time
	done   int // found done by another replica
	errors []error
}

func (k *ticks) log(at time.Time, ran bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err != nil:
		k.errors = append(k.errors, err)
	case ran:
		k.ran = append(k.ran, at.UTC())
	default:
		k.done++
	}
}

// mounts make a job of a Cron that works for a second.
var mounts = map[string]func(locks lockmw.Locker, schedule cron.Schedule, done cronmw.Done) cron.Job{
	"Job": func(locks lockmw.Locker, schedule cron.Schedule, done cronmw.Done) cron.Job {
		return cronmw.Job(context.Background(), locks, "report:hourly", schedule, func(ctx context.Context) error {
			time.Sleep(time.Second)
			_, err := lockmw.Held(ctx, "report:hourly")
			return err
		}, done)
	},
	"Wrap": func(locks lockmw.Locker, schedule cron.Schedule, done cronmw.Done) cron.Job {
		once := cronmw.Wrap(context.Background(), locks, "report:hourly", schedule, done)
		return cron.NewChain(once).Then(cron.FuncJob(func() { time.Sleep(time.Second) }))
	},
}

// Two replicas are two processes with a Client and a Cron each.
func TestAJobOfACronRunsAtEachTimeInOneReplica(t *testing.T) {
	for name, mount := range mounts {
		t.Run(name, func(t *testing.T) {
			usertest.InBubble(t, func(t *testing.T, s *redistest.Server) { // starts at midnight UTC of 2000-01-01
				schedule, err := cron.ParseStandard("CRON_TZ=Europe/Berlin 30 * * * *")
				if err != nil {
					t.Fatal(err)
				}
				k := new(ticks)
				for range 2 {
					c := cron.New(cron.WithLocation(time.UTC))
					c.Schedule(schedule, mount(usertest.Client(t, s), schedule, k.log))
					c.Start()
					defer func() { <-c.Stop().Done() }()
				}
				time.Sleep(3 * time.Hour)
				synctest.Wait()
				want := []time.Time{
					time.Date(2000, 1, 1, 0, 30, 0, 0, time.UTC), time.Date(2000, 1, 1, 1, 30, 0, 0, time.UTC), time.Date(2000, 1, 1, 2, 30, 0, 0, time.UTC),
				}
				if !slices.Equal(k.ran, want) || k.done != 3 || len(k.errors) > 0 {
					t.Errorf("ran at %v, found done %d times, failed with %v; want %v, 3 and nothing", k.ran, k.done, k.errors, want)
				}
			})
		})
	}
}

func TestAJobThatPanicsHasRun(t *testing.T) {
	race.InBubble(t, func(t *testing.T) {
		schedule, err := cron.ParseStandard("* * * * *")
		if err != nil {
			t.Fatal(err)
		}
		locks, k, runs := lockmw.NewLocal(), new(ticks), 0
		for range 2 {
			c := cron.New()
			once := cronmw.Wrap(t.Context(), locks, "report", schedule, k.log)
			c.Schedule(schedule, cron.NewChain(cron.Recover(cron.DiscardLogger), once).Then(cron.FuncJob(func() { runs++; panic("out of paper") })))
			c.Start()
			defer func() { <-c.Stop().Done() }()
		}
		time.Sleep(90 * time.Second)
		synctest.Wait()
		if runs != 1 || k.done != 1 || len(k.errors) > 0 {
			t.Errorf("%d runs, found done %d times, %v", runs, k.done, k.errors)
		}
	})
}

// A job that a wrapper delays, or that a Cron starts by another time zone, would run at a time that other replicas do not know.
func TestAJobThatIsStartedAtAnotherTimeDoesNotRun(t *testing.T) {
	race.InBubble(t, func(t *testing.T) { // starts at midnight UTC
		schedule, err := cron.ParseStandard("CRON_TZ=UTC 30 2 * * *")
		if err != nil {
			t.Fatal(err)
		}
		k, runs := new(ticks), 0
		job := cronmw.Job(t.Context(), lockmw.NewLocal(), "report", schedule, func(context.Context) error { runs++; return nil }, k.log)
		job.Run()
		if len(k.errors) != 1 || !errors.Is(k.errors[0], cronmw.ErrNotDue) || runs != 0 {
			t.Errorf("at midnight: %v after %d runs, want ErrNotDue", k.errors, runs)
		}
		time.Sleep(2*time.Hour + 30*time.Minute + 20*time.Second)
		job.Run()
		if at := time.Date(2000, 1, 1, 2, 30, 0, 0, time.UTC); runs != 1 || !slices.Equal(k.ran, []time.Time{at}) {
			t.Errorf("at 02:30:20: %d runs, for the times %v", runs, k.ran)
		}
	})
}

func TestWithinSaysHowLateAJobMayBeStarted(t *testing.T) {
	race.InBubble(t, func(t *testing.T) { // starts at midnight UTC
		daily, err := cron.ParseStandard("CRON_TZ=UTC 0 0 * * *")
		if err != nil {
			t.Fatal(err)
		}
		schedule, k := cronmw.Within(10*time.Minute, daily), new(ticks)
		start := func(key string) {
			cronmw.Job(t.Context(), lockmw.NewLocal(), key, schedule, func(context.Context) error { return nil }, k.log).Run()
		}
		time.Sleep(9 * time.Minute)
		start("in time")
		time.Sleep(2 * time.Minute)
		start("too late")
		if len(k.ran) != 1 || len(k.errors) != 1 || !errors.Is(k.errors[0], cronmw.ErrNotDue) {
			t.Errorf("it ran for the times %v, with the errors %v", k.ran, k.errors)
		}
	})
}

func TestAJobIsForTheLatestTime(t *testing.T) {
	race.InBubble(t, func(t *testing.T) { // starts at midnight UTC
		seconds := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
		schedule, err := seconds.Parse("CRON_TZ=UTC */10 * * * * *")
		if err != nil {
			t.Fatal(err)
		}
		k := new(ticks)
		time.Sleep(25 * time.Second)
		cronmw.Job(t.Context(), lockmw.NewLocal(), "report", schedule, func(context.Context) error { return nil }, k.log).Run()
		if at := time.Date(2000, 1, 1, 0, 0, 20, 0, time.UTC); len(k.errors) > 0 || !slices.Equal(k.ran, []time.Time{at}) {
			t.Errorf("it ran for the times %v, with the errors %v; want %v", k.ran, k.errors, at)
		}
	})
}
