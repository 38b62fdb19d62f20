package library_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/server"
	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// TestMain ignores goroutines of fiber's server that sleep for some seconds after its end.
func TestMain(m *testing.M) {
	leak.VerifyMain(m.Run, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// eachLock runs test with every library that locks.
func eachLock(t *testing.T, test func(t *testing.T, l library.Library)) {
	for _, l := range library.All() {
		if l.Locks() {
			t.Run(l.Name, func(t *testing.T) { test(t, l) })
		}
	}
}

func named(t *testing.T, name string) library.Library {
	t.Helper()
	for _, l := range library.All() {
		if l.Name == name {
			return l
		}
	}
	t.Fatalf("there is no library %q", name)
	return library.Library{}
}

func open(t *testing.T, l library.Library, addr string) library.Locker {
	t.Helper()
	locker, err := l.Open(library.Config{Addr: addr, Wait: library.Short})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := locker.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return locker
}

func TestLockExcludesUntilUnlock(t *testing.T) {
	s := redistest.Redis(t)
	eachLock(t, func(t *testing.T, l library.Library) {
		first, second := open(t, l, s.Addr()), open(t, l, s.Addr())
		key := "excluded:" + l.Name
		hold, err := first.Lock(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		for _, locker := range []library.Locker{first, second} {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			if again, err := locker.Lock(ctx, key); err == nil {
				t.Error("locked while the lock was held")
				_ = again.Unlock()
			}
			cancel()
		}
		if err := hold.Unlock(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		hold, err = second.Lock(ctx, key)
		if err != nil {
			t.Fatalf("locking a free lock: %v", err)
		}
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

func TestWaiterGetsTheLock(t *testing.T) {
	s := redistest.Redis(t)
	eachLock(t, func(t *testing.T, l library.Library) {
		first, second := open(t, l, s.Addr()), open(t, l, s.Addr())
		key := "awaited:" + l.Name
		hold, err := first.Lock(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		got := make(chan error)
		go func() {
			hold, err := second.Lock(ctx, key)
			if err == nil {
				err = hold.Unlock()
			}
			got <- err
		}()
		select {
		case err := <-got:
			t.Errorf("the waiter was done before the release: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}

func TestUnlockOfALostLockIsAnError(t *testing.T) {
	s := redistest.Redis(t)
	rdb := s.NewClient(t)
	eachLock(t, func(t *testing.T, l library.Library) {
		if l.Watchdog {
			t.Skip("the library notices a loss late, or does not report it")
		}
		hold, err := open(t, l, s.Addr()).Lock(t.Context(), "lost:"+l.Name)
		if err != nil {
			t.Fatal(err)
		}
		if n := rdb.Del(t.Context(), "lost:"+l.Name).Val(); n != 1 {
			t.Fatalf("%d keys deleted", n)
		}
		if err := hold.Unlock(); err == nil {
			t.Error("no error")
		}
	})
}

func TestReadersShareTheLockAndExcludeWriters(t *testing.T) {
	s := redistest.Redis(t)
	l := named(t, "lockmw-rw")
	first, second := open(t, l, s.Addr()).(library.Reader), open(t, l, s.Addr()).(library.Reader)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var readers []library.Hold
	for _, locker := range []library.Reader{first, first, second} {
		hold, err := locker.RLock(ctx, "shared")
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, hold)
	}
	excluded := func(lock func(context.Context, string) (library.Hold, error), by string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if hold, err := lock(ctx, "shared"); err == nil {
			t.Error("not excluded by", by)
			_ = hold.Unlock()
		}
	}
	excluded(second.Lock, "readers")
	for _, hold := range readers {
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
	}
	writer, err := first.Lock(ctx, "shared")
	if err != nil {
		t.Fatal(err)
	}
	excluded(second.RLock, "a writer")
	if err := writer.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestWaitersForAFairLockAnnounceThatTheyAreQueued(t *testing.T) {
	s := redistest.Redis(t)
	locker := open(t, named(t, "lockmw-fair"), s.Addr()).(library.Announcer)
	inspector, err := lockmw.NewInspector(s.NewClient(t))
	if err != nil {
		t.Fatal(err)
	}
	hold, err := locker.Lock(t.Context(), "queued")
	if err != nil {
		t.Fatal(err)
	}
	const waiters = 3
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	served := make(chan error)
	for i := range waiters {
		queued := make(chan struct{})
		go func() {
			hold, err := locker.LockAnnounced(ctx, "queued", func() { close(queued) })
			if err == nil {
				err = hold.Unlock()
			}
			served <- err
		}()
		select {
		case <-queued:
		case <-ctx.Done():
			t.Fatal("no waiter was announced")
		}
		if status, err := inspector.Get(ctx, "queued"); err != nil || len(status.Waiters) != i+1 {
			t.Errorf("%d tickets are queued, want %d, %v", len(status.Waiters), i+1, err)
		}
	}
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
	for range waiters {
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

func TestPubsubPassesTurns(t *testing.T) {
	s := redistest.Redis(t)
	pubsub := named(t, "pubsub")
	players := make([]library.Locker, 2)
	for i := range players {
		p, err := pubsub.Open(library.Config{Addr: s.Addr(), Index: i})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		players[i] = p
	}
	turn, err := players[0].Lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < 6; i++ {
		got := make(chan library.Hold)
		go func() {
			next, err := players[i%2].Lock(t.Context(), "k")
			if err != nil {
				t.Error(err)
			}
			got <- next
		}()
		passOn(t, s.NewClient(t), turn, "k:"+strconv.Itoa(i%2))
		if turn = <-got; turn == nil {
			return
		}
	}
}

// passOn ends a turn once the other process listens.
func passOn(t *testing.T, rdb *redis.Client, turn library.Hold, channel string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if n := rdb.PubSubNumSub(t.Context(), channel).Val(); n[channel] == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no process listens")
		}
	}
	if err := turn.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestTheServerCountsTheCommandsOnTheWire(t *testing.T) {
	redisServer := redistest.Redis(t)
	s, err := server.Use(t.Context(), redisServer.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	eachLock(t, func(t *testing.T, l library.Library) {
		wire := tap(t, redisServer.Addr())
		locker := open(t, l, wire.addr)
		takeAndFail(t, locker, "connected:"+l.Name)
		for tries := 3; ; tries-- { // commands may be on their way between the two counts
			sent, written := countBoth(t, s, wire, l, func() { takeAndFail(t, locker, "counted:"+l.Name) })
			if sent == written && sent >= 20 {
				return
			}
			if tries == 1 {
				t.Fatalf("the server counted %d commands, %d were on the wire", sent, written)
			}
		}
	})
}

// countBoth counts the commands of f on the server and on the wire, except those that set up a connection.
func countBoth(t *testing.T, s *server.Server, wire *wiretap, l library.Library, f func()) (sent, written int64) {
	t.Helper()
	connected := wire.commands.Load()
	before, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f()
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); {
		after, err := s.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stats := after.Since(before)
		sent, written = l.Sent(stats), wire.commands.Load()-connected
		for command, n := range stats.Calls {
			if name, _, _ := strings.Cut(command, "|"); slices.Contains(setsUp, name) {
				sent -= n
			}
		}
		if sent == written {
			break
		}
		before.Calls["info"]++ // the next Stats also counts the INFO of this one
	}
	return sent, written
}

// takeAndFail locks and unlocks, and tries to take a held lock.
func takeAndFail(t *testing.T, locker library.Locker, key string) {
	t.Helper()
	for range 10 {
		hold, err := locker.Lock(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := locker.Lock(ctx, key); err == nil {
			t.Error("locked while the lock was held")
		}
		cancel()
		if err := hold.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAMajorityOfServersHasTheLock(t *testing.T) {
	var c library.Config
	var clients []*redis.Client
	for range 3 {
		s := redistest.Redis(t)
		c.Independent = append(c.Independent, s.Addr())
		clients = append(clients, s.NewClient(t))
	}
	for _, name := range []string{"lockmw-redlock", "lockmw-redlock-notoken", "redsync"} {
		locker, err := named(t, name).Open(c)
		if err != nil {
			t.Fatal(err)
		}
		hold, err := locker.Lock(t.Context(), "several:"+name)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, rdb := range clients {
			if keys := rdb.Keys(t.Context(), "*several:"+name+"*").Val(); len(keys) > 0 {
				n++
			}
		}
		if n < 2 {
			t.Errorf("%s: %d of 3 servers have the lock", name, n)
		}
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
		takeAndFail(t, locker, "again:"+name)
		if err := locker.Close(); err != nil {
			t.Error(err)
		}
	}
}
