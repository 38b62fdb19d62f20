package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

const (
	quarantine       = 4 * time.Second
	quarantinedLease = 3 * time.Second

	// They are longer where a hold is to outlive that a server is replaced, on a busy machine.
	longQuarantine = 24 * time.Second
	keptLease      = 20 * time.Second
)

// A loss is a way in which servers lose what a holder relies on.
type loss struct {
	name    string
	servers func(t *testing.T) (before, after *redistest.Server, lose func())
}

// restart is a server that dies and is started again, with args.
func restart(first, again []string, save bool) func(t *testing.T) (before, after *redistest.Server, lose func()) {
	return func(t *testing.T) (before, after *redistest.Server, lose func()) {
		s := redistest.Redis(t, first...)
		if save {
			if err := s.NewClient(t).Save(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		return s, s, func() {
			s.Kill()
			s.Restart(t, again...)
		}
	}
}

var losses = []loss{
	{"a restart without data", restart(nil, nil, false)},
	{"a restart with old data", restart([]string{"--dbfilename", "old.rdb"}, nil, true)},
	{"a fail-over", func(t *testing.T) (before, after *redistest.Server, lose func()) {
		s := newSuccession(t)
		s.await()
		s.link.Swallow() // what is written from now on is lost
		return s.master, s.replica, s.succeed
	}},
	{"a fail-over and back", func(t *testing.T) (before, after *redistest.Server, lose func()) {
		s := newSuccession(t)
		s.await()
		s.link.Swallow()
		return s.master, s.master, func() {
			s.promote(s.replica)
			follow(t, s.master, s.replica)
			s.promote(s.master)
		}
	}},
}

// follow has a server become a replica of another one, and get its data.
func follow(t *testing.T, s, master *redistest.Server) {
	t.Helper()
	host, port, _ := strings.Cut(master.Addr(), ":")
	rdb := s.NewClient(t)
	if err := rdb.ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	usertest.Eventually(t, "the replica has the data", time.Minute, func() bool {
		return strings.Contains(rdb.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
}

// Holders that cannot hear of it work until their deadlines, while servers lose their locks.
func TestNobodyGetsALockThatAServerHasLostBeforeItsHolderIsDone(t *testing.T) {
	suite.NeedsFull(t, "each loss takes seconds")
	t.Parallel()
	for _, l := range losses {
		for _, with := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, WithQuarantine %t", l.name, with), func(t *testing.T) {
				t.Parallel()
				before, after, lose := l.servers(t)
				opts := []lockmw.ClientOption{lockmw.WithLease(time.Minute)}
				if with {
					opts = []lockmw.ClientOption{lockmw.WithLease(quarantinedLease), lockmw.WithQuarantine(quarantine)}
				}
				link := before.NewProxy(t)
				holder := usertest.Abandoned(t, before.NewClient(t, link.Use), opts...)
				holds := holdAll(t, holder)
				link.Swallow() // they do not hear of anything any more
				lose()
				lost := time.Now()
				next := usertest.Abandoned(t, after.NewClient(t), opts...)
				early := takeFromHolders(t, next, holds)
				if with && early > 0 || !with && early == 0 {
					t.Errorf("%d of %d keys were had by another before the deadline of the holder", early, successionKeys)
				}
				if took := time.Since(lost); with && took > quarantine+time.Minute {
					t.Errorf("locks were granted %v after the loss", took)
				}
			})
		}
	}
}

func TestAServerThatIsNewGrantsNothingForTheQuarantine(t *testing.T) {
	suite.NeedsFull(t, "the server has to grow old")
	t.Parallel()
	begun := time.Now()
	server := redistest.Redis(t)
	first := usertest.Abandoned(t, server.NewClient(t), lockmw.WithLease(quarantinedLease), lockmw.WithQuarantine(quarantine))
	_, _, err := first.TryLock(t.Context(), "item")
	if !errors.Is(err, lockmw.ErrUnavailable) || !strings.Contains(err.Error(), "may have lost locks and grants none for another") {
		t.Errorf("a try: %v", err)
	}
	_, h := usertest.Lock(t, context.WithoutCancel(t.Context()), first, "item")
	if took := time.Since(begun); took < quarantine {
		t.Errorf("it was granted after %v", took)
	}
	second := usertest.Abandoned(t, server.NewClient(t), lockmw.WithLease(quarantinedLease), lockmw.WithQuarantine(quarantine))
	if _, _, err := second.TryLock(t.Context(), "item"); !errors.Is(err, lockmw.ErrBusy) {
		t.Errorf("another process tries a lock that is held: %v", err)
	}
	usertest.Unlock(t, h)
	if _, h, err = second.TryLock(context.WithoutCancel(t.Context()), "item"); err != nil {
		t.Fatalf("another process: %v", err)
	}
	usertest.Unlock(t, h)

	long := usertest.Abandoned(t, server.NewClient(t), lockmw.WithLease(quarantinedLease), lockmw.WithQuarantine(time.Hour))
	if _, _, err := long.TryLock(t.Context(), "item"); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("with a longer quarantine: %v", err)
	}
	third := usertest.Abandoned(t, server.NewClient(t), lockmw.WithLease(quarantinedLease), lockmw.WithQuarantine(quarantine))
	usertest.Eventually(t, "the server is old enough", time.Minute, func() bool {
		info := server.NewClient(t).InfoMap(t.Context(), "server").Item("Server", "uptime_in_seconds")
		seconds, _ := strconv.Atoi(info)
		return time.Duration(seconds)*time.Second > quarantine+time.Second
	})
	_, _, err = third.Lock(t.Context(), "item")
	if !errors.Is(err, lockmw.ErrInvalidOption) || !strings.Contains(err.Error(), "WithQuarantine(1h0m0s)") {
		t.Errorf("with a shorter quarantine than another: %v", err)
	}
}

// Holds from before the fail-over that were not lost continue: renewals, releases, and hand-overs once the server is trusted.
func TestHoldsGoOnInAQuarantine(t *testing.T) {
	suite.NeedsFull(t, "it takes seconds")
	t.Parallel()
	s := newSuccession(t)
	var address atomic.Value
	address.Store(s.master.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: s.master.Addr(), Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address.Load().(string))
	}})
	t.Cleanup(func() { _ = rdb.Close() })
	locks := usertest.Abandoned(t, rdb, lockmw.WithLease(keptLease), lockmw.WithQuarantine(longQuarantine))
	ctx, h := usertest.Lock(t, context.WithoutCancel(t.Context()), locks, "item")
	s.await()
	begun := time.Now()
	s.succeed()
	address.Store(s.replica.Addr())
	replaced := time.Now()
	for h.Deadline().Before(replaced.Add(keptLease)) { // until it is renewed there
		if ctx.Err() != nil {
			t.Fatal(context.Cause(ctx))
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := h.Extend(t.Context(), keptLease); err != nil {
		t.Errorf("Extend: %v", err)
	}
	usertest.Unlock(t, h)
	if _, _, err := locks.TryLock(t.Context(), "item"); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("a try in the quarantine: %v", err)
	}
	_, h = usertest.Lock(t, context.WithoutCancel(t.Context()), locks, "item")
	if took := time.Since(begun); took < longQuarantine {
		t.Errorf("a lock was granted %v after the fail-over", took)
	}
	usertest.Unlock(t, h)
}

// A server that writes everything to its append-only file has lost nothing. It cannot prove that, so it is still in quarantine.
func TestHoldsGoOnAfterARestartWithAnAppendOnlyFile(t *testing.T) {
	suite.NeedsFull(t, "it takes seconds")
	for _, with := range []bool{false, true} {
		t.Run(fmt.Sprintf("WithQuarantine %t", with), func(t *testing.T) {
			t.Parallel()
			server := redistest.Redis(t, redistest.Kept...)
			opts := []lockmw.ClientOption{lockmw.WithLease(keptLease)}
			if with {
				opts = append(opts, lockmw.WithQuarantine(longQuarantine))
			}
			holder, rival := usertest.Abandoned(t, server.NewClient(t), opts...), usertest.Abandoned(t, server.NewClient(t), opts...)
			kept := hold(t, holder, "kept")
			if kept == nil {
				return
			}
			begun := time.Now()
			server.Kill()
			server.Restart(t)
			if with {
				wantRefused(t, rival, "free")
			}
			if h := hold(t, rival, "free"); h != nil {
				_ = h.Unlock()
			}
			if took := time.Since(begun); took < longQuarantine == with {
				t.Errorf("a lock was granted %v after the restart", took)
			}
			wantKept(t, kept, rival, "kept")
		})
	}
}

// Sentinels replace a master that hangs and later continues to serve.
func TestAQuarantineBeginsWithTheMasterThatSentinelsElect(t *testing.T) {
	suite.NeedsFull(t, "a fail-over takes seconds")
	t.Parallel()
	servers := redistest.NewSentinel(t, 1, 1)
	servers.SetDownAfter(time.Minute)
	var clients []*lockmw.Client
	for range 2 {
		locks := usertest.Abandoned(t, servers.Client(t), lockmw.WithLease(keptLease), lockmw.WithQuarantine(longQuarantine))
		clients = append(clients, locks)
	}
	holder, rival := clients[0], clients[1]
	kept := hold(t, holder, "kept")
	if h := hold(t, rival, "free"); h == nil || kept == nil {
		return
	} else if err := h.Unlock(); err != nil {
		t.Error(err)
	}
	old := servers.Master()
	servers.AwaitReplicated(old)
	away := time.Now()
	servers.SetDownAfter(500 * time.Millisecond)
	servers.Servers()[old].Pause(t)
	servers.AwaitPromoted(old)
	servers.SetDownAfter(time.Minute)
	servers.Servers()[old].Resume(t)
	wantRefused(t, rival, "free")
	if h := hold(t, rival, "free"); h != nil {
		_ = h.Unlock()
	}
	if took := time.Since(away); took < longQuarantine {
		t.Errorf("a lock was granted %v after its master went away", took)
	}
	wantKept(t, kept, rival, "kept")
}

// wantRefused checks that a try for a lock that is free meets a quarantine.
func wantRefused(t *testing.T, locks *lockmw.Client, key string) {
	t.Helper()
	_, _, err := locks.TryLock(t.Context(), key)
	if !errors.Is(err, lockmw.ErrUnavailable) || !strings.Contains(err.Error(), "may have lost locks") {
		t.Errorf("a try in the quarantine: %v", err)
	}
}

// wantKept checks that a hold continues, and that no other caller gets its lock.
func wantKept(t *testing.T, h *lockmw.Hold, rival *lockmw.Client, key string) {
	t.Helper()
	if _, _, err := rival.TryLock(t.Context(), key); !errors.Is(err, lockmw.ErrBusy) {
		t.Errorf("another one tries what is kept: %v", err)
	}
	if err := h.Unlock(); err != nil {
		t.Errorf("what was kept: %v", err)
	}
}

func TestWithQuarantineRefusesWhatItCannotProtect(t *testing.T) {
	t.Parallel()
	rdb := redistest.Mini(t).NewClient(t)
	for _, d := range []time.Duration{0, -time.Second, 3 * time.Second, 25 * time.Hour} {
		if _, err := lockmw.New(rdb, lockmw.WithQuarantine(d)); !errors.Is(err, lockmw.ErrInvalidOption) {
			t.Errorf("WithQuarantine(%v): %v", d, err)
		}
	}
}

func TestWithQuarantineRefusesServersWhoseReplicationIDSaysNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	for says, want := range map[string]error{
		"role:master": lockmw.ErrUnavailable,
		"role:master garnet_version:1.0.84 master_replid:" + strings.Repeat("0", 40):                      lockmw.ErrUnavailable,
		"role:master dragonfly_version:df-v1.30.0 master_replid:8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb": lockmw.ErrInvalidOption,
	} {
		rdb := s.NewClient(t)
		rdb.AddHook(redistest.Says(says))
		c, err := lockmw.New(rdb, lockmw.WithLease(time.Second), lockmw.WithQuarantine(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, _, err := c.Lock(t.Context(), "item", lockmw.WithWait(time.Minute)); !errors.Is(err, want) || time.Since(start) > 10*time.Second {
			t.Errorf("a server that says %q: %v, after %v", says, err, time.Since(start))
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
