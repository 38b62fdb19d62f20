package idempotency_test

import (
	"errors"
	"testing"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// Middleware often has "defer run.Leave()" right after Begin, which also returns replays.
func TestTheMethodsOfAReplayChangeNothing(t *testing.T) {
	forEach(t, func(t *testing.T, locks lockmw.Locker) {
		once := idempotency.New(locks)
		begin := func() *idempotency.Run {
			run, err := once.Begin(t.Context(), key, idempotency.Fingerprint{}, idempotency.Refuse)
			if err != nil {
				t.Fatal(err)
			}
			return run
		}
		first := begin()
		isError(t, first.Keep(idempotency.Answer{Body: []byte("1")}), nil)
		replay := begin()
		if replay.LockKey() != key.LockKey() || replay.ID() != first.ID() || replay.Attempt() != 1 || replay.Context() != t.Context() || replay.Store() != nil {
			t.Errorf("the replay is %+v", replay)
		}
		for name, ended := range map[string]*idempotency.Run{"a replay": replay, "a run that has ended": first} {
			for i, err := range []error{ended.Leave(), ended.Forget(), ended.Keep(idempotency.Answer{Body: []byte("2")})} {
				if !errors.Is(err, lockmw.ErrNotHeld) || errors.Is(err, lockmw.ErrUnavailable) {
					t.Errorf("%s: error %d is %v", name, i, err)
				}
			}
		}
		if answer, done := begin().Replay(); !done || string(answer.Body) != "1" {
			t.Errorf("the answer is %q, %v", answer.Body, done)
		}
	})
}
