package locklog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/locklog"
	"github.com/lockmw/go/lockmw"
)

func TestWaitsFromTheThresholdOnAreLogged(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts []locklog.Option
		wait time.Duration
		want bool
	}{
		{"shorter than the default", nil, time.Second - 1, false},
		{"the default", nil, time.Second + 1, true},
		{"shorter than the threshold", []locklog.Option{locklog.WithSlowWait(20 * time.Millisecond)}, 20*time.Millisecond - 1, false},
		{"the threshold", []locklog.Option{locklog.WithSlowWait(20 * time.Millisecond)}, 20*time.Millisecond + 1, true},
		{"never", []locklog.Option{locklog.WithSlowWait(lockmw.Forever)}, time.Hour, false},
	} {
		// A wait ends in one of three ways.
		for end, wait := range map[string]func(t *testing.T, j *journal){
			"acquired": func(t *testing.T, j *journal) {
				local := j.local()
				_, hold := usertest.Lock(t, t.Context(), local, "item:7")
				time.AfterFunc(tt.wait, func() { usertest.Unlock(t, hold) })
				_, hold = usertest.Lock(t, t.Context(), local, "item:7")
				usertest.Unlock(t, hold)
			},
			"timeout": func(t *testing.T, j *journal) {
				local := j.local(lockmw.WithWait(tt.wait))
				usertest.Lock(t, t.Context(), local, "item:7")
				if _, _, err := local.Lock(t.Context(), "item:7"); !errors.Is(err, lockmw.ErrBusy) {
					t.Error(err)
				}
			},
			"canceled": func(t *testing.T, j *journal) {
				local := j.local()
				usertest.Lock(t, t.Context(), local, "item:7")
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(tt.wait, cancel)
				if _, _, err := local.Lock(ctx, "item:7"); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			},
		} {
			t.Run(tt.name+"/"+end, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					j := newJournal(t, append(tt.opts, locklog.WithLongHold(lockmw.Forever))...)
					wait(t, j)
					if !tt.want {
						j.messages()
						return
					}
					l := j.messages(stillWaiting, slowWait)[1]
					l.want(t, line{"level": "WARN", "lock.waited": tt.wait, "lock.outcome": end})
				})
			})
		}
	}
}

func TestTheHolderOfASlowWaitIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t)
		local := j.local()
		_, hold := usertest.Lock(t, t.Context(), local, "item:7", storing(valid))
		since, token := time.Now(), hold.Token()
		time.Sleep(time.Second)
		time.AfterFunc(3*time.Second, func() { usertest.Unlock(t, hold) })
		_, hold = usertest.Lock(t, t.Context(), local, "item:7", lockmw.WithName("checkout"))
		usertest.Unlock(t, hold)

		l := j.messages(stillWaiting, slowWait)[1]
		l.want(t, line{
			"lock.name": "checkout", "lock.operation": "lock", "lock.mode": "exclusive", "lock.key": "item:7",
			"lock.token": hold.Token(), "lock.waited": 3 * time.Second, "lock.outcome": "acquired",
			"lock.position": 1, "lock.waiters": 1, "lock.holders": 1, "lock.held": nil,
			"holder.process": "local", "holder.token": token, "holder.since": since.Format(time.RFC3339Nano),
			"holder.trace_id": validTrace, "error.type": nil, "error.message": nil,
		})
		if owner, _ := l["holder.owner"].(string); len(owner) != 32 {
			t.Errorf("holder.owner is %q", owner)
		}
	})
}

func TestTheHolderIsTheOneSeenAtAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t)
		local := j.local()
		_, first := usertest.Lock(t, t.Context(), local, "item:7")
		ends := make(chan struct{})
		go func() {
			defer close(ends)
			_, second := usertest.Lock(t, t.Context(), local, "item:7")
			time.Sleep(2 * time.Second)
			usertest.Unlock(t, second)
		}()
		time.AfterFunc(time.Second/2, func() { usertest.Unlock(t, first) })
		synctest.Wait()
		_, _, err := local.Lock(t.Context(), "item:7", lockmw.WithWait(time.Second+1))
		if !errors.Is(err, lockmw.ErrBusy) {
			t.Fatal(err)
		}
		l := j.messages(stillWaiting, slowWait)[1]
		l.want(t, line{
			"lock.position": 2, "lock.waiters": 2, "lock.holders": 1, "lock.token": nil, "holder.token": first.Token() + 1,
			"lock.outcome": "timeout", "error.type": "lock_timeout", "error.message": "lockmw: lock is busy",
		})
		<-ends
	})
}

func TestOfSeveralReadersTheOldestIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t)
		local := j.local()
		var holds []*lockmw.Hold
		for i := range 3 {
			_, hold := usertest.Lock(t, t.Context(), local.RLocker(), "item:7", storing(fmt.Sprintf("00-%032x-b7ad6b7169203331-01", i+1)))
			holds = append(holds, hold)
			time.Sleep(time.Second)
		}
		usertest.Unlock(t, holds[0]) // which puts the third in its place
		if _, _, err := local.Lock(t.Context(), "item:7", lockmw.WithWait(time.Second+1)); !errors.Is(err, lockmw.ErrBusy) {
			t.Fatal(err)
		}
		l := j.messages(stillWaiting, slowWait)[1]
		l.want(t, line{"lock.mode": "exclusive", "lock.holders": 2, "holder.trace_id": fmt.Sprintf("%032x", 2)})
	})
}

func TestRedisThatFailsACallIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t)
		s := newScript(j.observer)
		time.Sleep(time.Second + 1)
		s.Failed(&lockmw.Error{Op: "lock", Key: "item:7", Err: fmt.Errorf("%w: i/o timeout", lockmw.ErrUnavailable)})
		s = newScript(j.observer)
		s.Acquired(lockmw.Acquisition{Waited: time.Second})

		newScript(j.observer).Failed(&lockmw.Error{Op: "lock", Key: "item:7", Err: lockmw.ErrWrongType}) // immediately

		lines := j.messages(stillWaiting, failed, slowWait, failed)[1:]
		lines[0].want(t, line{
			"lock.outcome": "error", "lock.waited": time.Second + 1, "lock.holders": nil, "holder.owner": nil,
			"error.type": "lock_unavailable", "error.message": "lockmw: lock server is unavailable: i/o timeout",
		})
		lines[1].want(t, line{"lock.outcome": "acquired", "lock.waited": time.Second, "lock.position": nil, "lock.waiters": nil})
	})
}

func TestQuickFailuresAreNotLogged(t *testing.T) {
	j := newJournal(t)
	for _, err := range []error{
		lockmw.ErrBusy, lockmw.ErrTooManyWaiters, lockmw.ErrClosed,
		fmt.Errorf("%w: %w", lockmw.ErrBusy, context.Canceled),
	} {
		newScript(j.observer).Failed(&lockmw.Error{Op: "lock", Key: "item:7", Err: err})
	}
	j.messages()
}

func TestAnErrorThatIsNoLockError(t *testing.T) {
	j := newJournal(t, locklog.WithSlowWait(0))
	newScript(j.observer).Failed(errors.New("oops"))
	j.messages(slowWait)[0].want(t, line{"lock.outcome": "error", "error.type": "lock_error", "error.message": "oops"})
}
