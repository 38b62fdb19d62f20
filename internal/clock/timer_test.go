package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestATimerFiresSoonAfterASleep(t *testing.T) {
	for name, tt := range map[string]struct{ lasts, sleeps, want time.Duration }{
		"no sleep":           {10 * time.Second, 0, 10 * time.Second},
		"a sleep beyond it":  {10 * time.Second, time.Hour, 2*time.Second + Interval},
		"a sleep within it":  {10 * time.Second, 5 * time.Second, 5 * time.Second},
		"less than a moment": {time.Millisecond, 0, time.Millisecond},
		"none at all":        {-time.Second, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				fired := make(chan time.Duration, 1)
				AfterFunc(tt.lasts, func() { fired <- time.Since(begun) })
				time.Sleep(2 * time.Second)
				Skip(tt.sleeps)
				if got := <-fired; got > tt.want {
					t.Errorf("it fires after %v awake, want %v", got, tt.want)
				}
				time.Sleep(time.Hour)
				if len(fired) > 0 {
					t.Error("it fires twice")
				}
			})
		})
	}
}

func TestATimerThatIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := AfterFunc(time.Minute, func() { t.Error("it fires") })
		time.Sleep(30 * time.Second)
		if !timer.Stop() || timer.Stop() {
			t.Error("the first Stop prevents the call, and the second does not")
		}
		time.Sleep(time.Hour)
		fired := AfterFunc(0, func() {})
		synctest.Wait()
		if fired.Stop() {
			t.Error("Stop prevents a call that has been made")
		}
	})
}
