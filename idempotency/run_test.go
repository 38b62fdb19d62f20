package idempotency_test

import (
	"context"
	"errors"
	"testing"
	"time"

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

func TestAnErrorNamesTheRunInQuestion(t *testing.T) {
	plain := func(b []byte) ([]byte, error) { return b, nil }
	sealer := idempotency.Sealer{Seal: plain, Open: plain}
	do := func(once *idempotency.Runner, result any) error {
		_, err := idempotency.Do(context.Background(), once, key, order{"tea"}, idempotency.Refuse, func(context.Context, order) (any, error) { return result, nil })
		return err
	}
	for name, test := range map[string]struct {
		want error
		call func(t *testing.T, locks lockmw.Locker) error
	}{
		"the result is not JSON": {idempotency.ErrNotRecorded, func(_ *testing.T, locks lockmw.Locker) error {
			return do(idempotency.New(locks), func() {})
		}},
		"the result was too large": {idempotency.ErrDone, func(t *testing.T, locks lockmw.Locker) error {
			isError(t, do(idempotency.New(locks, idempotency.WithMaxBody(0)), 1), nil)
			return do(idempotency.New(locks), 1)
		}},
		"the result has another type": {idempotency.ErrDone, func(t *testing.T, locks lockmw.Locker) error {
			isError(t, do(idempotency.New(locks), "text"), nil)
			_, err := (&shop{}).do(idempotency.New(locks), "tea", idempotency.Refuse)
			return err
		}},
		"the answer is sealed": {idempotency.ErrDone, func(t *testing.T, locks lockmw.Locker) error {
			isError(t, do(idempotency.New(locks, idempotency.WithSealer(sealer)), 1), nil)
			return do(idempotency.New(locks), 1)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			forEach(t, func(t *testing.T, locks lockmw.Locker) {
				err := test.call(t, locks)
				isError(t, err, test.want)
				e, _ := errors.AsType[*idempotency.Error](err)
				if u := e.Unfinished; u == nil || u.Key != key || len(u.Run) != 32 || u.Token == 0 || u.Attempts != 1 || time.Since(u.Began).Abs() > time.Minute {
					t.Errorf("the run is %+v", u)
				}
			})
		})
	}
}
