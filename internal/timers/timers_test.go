package timers_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/timers"
)

func TestMain(m *testing.M) { leak.VerifyMain(m.Run) }

// A log records which timers fire, and when, in ms since the start.
type log struct {
	begun  clock.Instant
	told   []string
	rounds []int64
}

type owner struct {
	*log
	name  string
	timer timers.Timer
	then  func() // or nil
}

func (o *owner) Due() {
	o.told = append(o.told, o.name)
	if o.then != nil {
		o.then()
	}
}

func onSchedule(t *testing.T, test func(t *testing.T, s *timers.Schedule, l *log)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &log{begun: clock.Now()}
		s := timers.New(func() { l.rounds = append(l.rounds, clock.Since(l.begun).Milliseconds()) })
		test(t, s, l)
		s.Stop()
	})
}

func (l *log) owner(name string) *owner {
	o := &owner{log: l, name: name}
	o.timer.SetOwner(o)
	return o
}

func TestTimersAreDueInTheirOrder(t *testing.T) {
	onSchedule(t, func(t *testing.T, s *timers.Schedule, l *log) {
		a, b, c, gone, early := l.owner("a"), l.owner("b"), l.owner("c"), l.owner("gone"), l.owner("early")
		a.then = func() { s.SetAfter(&a.timer, time.Second, 0) }
		s.SetAfter(&c.timer, 30*time.Millisecond, 0)
		s.SetAfter(&gone.timer, 20*time.Millisecond, 0)
		s.SetAfter(&a.timer, time.Hour, 0)
		s.SetAfter(&b.timer, 20*time.Millisecond, 0)
		s.SetAfter(&early.timer, 25*time.Millisecond, 5*time.Millisecond)
		s.Remove(&gone.timer)
		s.Remove(&gone.timer)
		synctest.Wait()                              // the schedule sleeps
		s.SetAfter(&a.timer, 10*time.Millisecond, 0) // moved
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"a", "b", "early", "c"}; len(l.told) != 63 || !slices.Equal(l.told[:4], want) {
			t.Errorf("%d times due: %v, want %v first", len(l.told), l.told[:4], want)
		}
		if want := []int64{10, 20, 30, 1010}; !slices.Equal(l.rounds[:4], want) {
			t.Errorf("rounds after %v ms, want %v", l.rounds[:4], want)
		}
		if owners := s.Owners(); len(owners) != 1 || owners[0] != timers.Owner(a) {
			t.Errorf("set are the timers of %v", owners)
		}
	})
}

func TestAStoppedScheduleFiresNoTimers(t *testing.T) {
	onSchedule(t, func(t *testing.T, _ *timers.Schedule, l *log) {
		s := timers.New(func() {})
		o := l.owner("late")
		s.SetAfter(&o.timer, time.Second, 0)
		waited := false
		s.Go(func() { time.Sleep(time.Millisecond); waited = true })
		s.Stop()
		if !waited {
			t.Error("Stop did not wait for a goroutine")
		}
		s.SetNow(&o.timer)
		never := timers.New(func() {})
		never.Stop()
		never.SetNow(&l.owner("later").timer)
		time.Sleep(time.Minute)
		if len(l.told) > 0 {
			t.Error("a timer was due after Stop")
		}
	})
}

// Timers also count time that the monotonic clock does not show.
func TestTimersSeeASleepOfTheMachine(t *testing.T) {
	onSchedule(t, func(t *testing.T, s *timers.Schedule, l *log) {
		o := l.owner("asleep")
		s.SetAfter(&o.timer, time.Hour, 0)
		synctest.Wait() // the schedule sleeps
		clock.Skip(2 * time.Hour)
		time.Sleep(clock.Interval)
		synctest.Wait()
		if len(l.told) != 1 {
			t.Error("the timer is not due")
		}
	})
}

// A limited number of timers fire early together with one that is due. More would be a burst.
func TestOnlySomeTimersAreEarlyTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(log)
		var told []int // by the end of each round
		s := timers.New(func() { told = append(told, len(l.told)) })
		const n = 1200
		for i := range n {
			s.SetAfter(&l.owner("").timer, time.Second+time.Duration(i)*time.Microsecond, 250*time.Millisecond)
		}
		s.SetAfter(&l.owner("").timer, 900*time.Millisecond, 0)
		time.Sleep(2 * time.Second)
		s.Stop()
		if want := []int{1 + 512, 1 + 2*512 + 1, 1 + n}; !slices.Equal(told, want) {
			t.Errorf("fired by the end of each round: %v, want %v", told, want)
		}
	})
}
