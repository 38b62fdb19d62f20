package redistest_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
)

// wantTime checks a server's time, in a command and in a script: it must be this far ahead of this machine's.
func wantTime(t *testing.T, rdb *redis.Client, ahead time.Duration) {
	t.Helper()
	for what, ask := range map[string]func(context.Context) (time.Time, error){
		"TIME": func(ctx context.Context) (time.Time, error) { return rdb.Time(ctx).Result() },
		"TIME of a script": func(ctx context.Context) (time.Time, error) {
			us, err := rdb.Eval(ctx, "local t = redis.call('TIME') return t[1] * 1000000 + t[2]", nil).Int64()
			return time.UnixMicro(us), err
		},
	} {
		before := time.Now().Add(ahead)
		got, err := ask(t.Context())
		switch {
		case err != nil:
			t.Errorf("%s: %v", what, err)
		case got.Before(before.Truncate(time.Microsecond)) || got.After(time.Now().Add(ahead)):
			t.Errorf("%s is %v, want %v", what, got, before)
		}
	}
}

func TestAServerHasAClockOfItsOwn(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	s := redistest.Clocked(t, -minute)
	rdb := s.NewClient(t)
	wantTime(t, rdb, -minute)
	s.StepClock(t, 3*minute)
	wantTime(t, rdb, 2*minute)
	s.Kill()
	s.Restart(t)
	wantTime(t, rdb, 2*minute)
}

// Keys end by the clock: steps shorten or lengthen their remaining time.
func TestKeysEndByTheClockOfTheirServer(t *testing.T) {
	t.Parallel()
	s := redistest.Clocked(t, 0)
	rdb := s.NewClient(t)
	if err := rdb.Set(t.Context(), "k", 1, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ by, left time.Duration }{{0, time.Hour}, {-time.Hour, 2 * time.Hour}, {90 * time.Minute, 30 * time.Minute}} {
		s.StepClock(t, step.by)
		if left := rdb.PTTL(t.Context(), "k").Val(); left > step.left || left < step.left-time.Minute {
			t.Errorf("a step of %v leaves %v, want %v", step.by, left, step.left)
		}
	}
	s.StepClock(t, 30*time.Minute+time.Second)
	if n := rdb.Exists(t.Context(), "k").Val(); n != 0 {
		t.Error("the key is there after its end")
	}
}
