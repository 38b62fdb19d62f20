package bridge_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/bridge"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// several is a redsync over three servers, and its bridge. The locks of lockmw are on a server of their own.
type several struct {
	*testing.T
	servers []*redistest.Server
	wires   []*redistest.Wire // of the bridge
	rdbs    []*redis.Client   // of the old code
	locks   *bridge.Locker
}

func overSeveral(t *testing.T, test func(s *several)) {
	usertest.InBubble(t, func(t *testing.T, own *redistest.Server) {
		s := &several{T: t}
		var old []redis.Scripter
		for range 3 {
			server := redistest.Piped(t)
			wire := server.NewWire()
			s.wires, s.rdbs = append(s.wires, wire), append(s.rdbs, server.NewClient(t, unnotified))
			s.servers, old = append(s.servers, server), append(old, server.NewClient(t, wire.Use, unnotified))
		}
		s.locks = bridge.Redsync(usertest.ClientOf(t, own.NewClient(t, unnotified)), old[0], old[1:]...)
		t.Cleanup(s.locks.Close)
		test(s)
	})
}

// take takes the key on these servers as redsync does, and reports on how many it could.
func (s *several) take(servers ...int) (n int) {
	for _, i := range servers {
		if takeString(s.Context(), s.rdbs[i], key, "old") {
			n++
		}
	}
	return n
}

// exist returns on which servers the key exists.
func (s *several) exist() (all []int) {
	for i, rdb := range s.rdbs {
		if rdb.Exists(s.Context(), key).Val() == 1 {
			all = append(all, i)
		}
	}
	return all
}

func (s *several) free() {
	for _, rdb := range s.rdbs {
		rdb.Del(s.Context(), key)
	}
}

func TestAHoldHasTheKeysOfAllServers(t *testing.T) {
	overSeveral(t, func(s *several) {
		_, hold := usertest.Lock(s, s.Context(), s.locks, key, lockmw.WithLease(3*time.Second))
		time.Sleep(10 * time.Second)
		if n := s.take(0, 1, 2); n > 0 {
			s.Errorf("old code takes the keys of %d servers", n)
		}
		usertest.Unlock(s, hold)
		if left := s.exist(); left != nil {
			s.Errorf("keys are left on the servers %v", left)
		}
	})
}

func TestOneServerOfThreeMayBeUnavailable(t *testing.T) {
	overSeveral(t, func(s *several) {
		_, hold := usertest.Lock(s, s.Context(), s.locks, key)
		s.wires[2].Cut()
		start := time.Now()
		usertest.Unlock(s, hold)
		_, hold = usertest.Lock(s, s.Context(), s.locks, key)
		if took := time.Since(start); took > time.Second {
			s.Errorf("Unlock and Lock take %v", took)
		}
		usertest.Unlock(s, hold)
		s.wires[2].Restore()
		time.Sleep(5 * time.Second)
		if left := s.exist(); left != nil {
			s.Errorf("keys are left on the servers %v", left)
		}
	})
}

func TestAMajorityOfOldKeysIsBusyWhateverTheOthersAnswer(t *testing.T) {
	overSeveral(t, func(s *several) {
		s.take(0, 1)
		s.servers[2].Mini.SetError("ERR disabled") // waiting would not help
		_, _, err := s.locks.TryLock(s.Context(), key)
		if _, about := errors.AsType[*bridge.OldKeyError](err); !about || !errors.Is(err, lockmw.ErrBusy) {
			s.Errorf("%v, want ErrBusy about the old key", err)
		}
		s.free()
		s.wires[1].Cut()
		if _, _, err = s.locks.TryLock(s.Context(), key); !errors.Is(err, lockmw.ErrUnavailable) {
			s.Errorf("without a majority: %v", err)
		}
	})
}

func TestALostMajorityEndsTheHold(t *testing.T) {
	overSeveral(t, func(s *several) {
		ctx, hold := usertest.Lock(s, s.Context(), s.locks, key, lockmw.WithLease(3*time.Second))
		s.rdbs[0].Del(s.Context(), key)
		time.Sleep(5 * time.Second)
		if ctx.Err() != nil {
			s.Errorf("with two keys of three: %v", context.Cause(ctx))
		}
		s.rdbs[1].Del(s.Context(), key)
		time.Sleep(5 * time.Second)
		if _, about := errors.AsType[*bridge.OldKeyError](context.Cause(ctx)); !about {
			s.Errorf("with one key of three: %v", context.Cause(ctx))
		}
		_ = hold.Unlock()
	})
}

// The call gets one key of three, and gives it back. The server receives that when the call tries again.
func TestALateReleaseOfATryTakesNothingFromTheHold(t *testing.T) {
	overSeveral(t, func(s *several) {
		_, hold := usertest.Lock(s, s.Context(), s.locks, key) // the servers know the scripts
		usertest.Unlock(s, hold)
		s.take(1, 2)
		late := s.wires[0].Withhold(key, "\r\n$1\r\n0\r\n")
		sent := make(chan error)
		go func() {
			<-late.Caught()
			s.rdbs[1].Del(s.Context(), key)
			time.Sleep(time.Second)
			_, err := late.Send(s.Context())
			sent <- err
		}()
		_, hold = usertest.Lock(s, s.Context(), s.locks, key)
		if err := <-sent; err != nil {
			s.Fatal(err)
		}
		if n := s.take(0, 1); n > 0 {
			s.Errorf("old code takes the keys of %d servers", n)
		}
		usertest.Unlock(s, hold)
	})
}
