package asynqmw

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/internal/test/answertext"
	"github.com/lockmw/go/internal/test/parkedtest"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/transport"
	"github.com/lockmw/go/lockmw"
)

// A fail-over ends in seconds, so it is no reason to wake no task for a minute.
func TestOnlyALastingRefusalStopsParking(t *testing.T) {
	for text, stops := range map[string]bool{
		"LOADING Redis is loading the dataset in memory": false, "READONLY You can't write against a read only replica.": false,
		"CLUSTERDOWN The cluster is down": false, "TRYAGAIN Multiple keys request during rehashing of slot": false,
		"OOM command not allowed when used memory > 'maxmemory'.":          false,
		"NOPERM this user has no permissions to run the 'evalsha' command": true, "ERR unknown command 'evalsha'": true,
	} {
		var s parkerState
		_ = s.note(parked.Unknown, answertext.Error(text))
		if s.isOff() != stops {
			t.Errorf("after %q it is off: %t", text, !stops)
		}
	}
	var s parkerState
	_ = s.note(parked.Unknown, errors.New("connection refused"))
	if s.isOff() {
		t.Error("it is off after a broken connection")
	}
}

// A refusal lasts. A connection that breaks, or a pool without a free one, says nothing about other tasks.
func TestOnlyARefusalOfALockStopsWaking(t *testing.T) {
	for _, tt := range []struct {
		err   error
		stops bool
	}{
		{transport.Failure(answertext.Error("MISCONF the disk is full")), true},
		{fmt.Errorf("%w: too few replicas", lockmw.ErrUnavailable), true},
		{core.ErrNoAnswer, false},
		{transport.Failure(&net.OpError{Op: "dial", Err: errors.New("connection refused")}), false},
		{transport.Failure(io.EOF), false},
		{transport.Failure(redis.ErrPoolTimeout), false},
		{lockmw.ErrBusy, false},
		{nil, false},
	} {
		if got := isRefused(tt.err); got != tt.stops {
			t.Errorf("%v stops waking: %t", tt.err, got)
		}
	}
}

// Another server may end the last task of a list, of which this one learns only by a check.
func TestListsThatAreGoneAreForgotten(t *testing.T) {
	p := &parker{stats: make(map[parked.ListID]*keyStats), server: &server{workers: 2}}
	at := func(queue string, i int) parked.ListID {
		return parked.ListID{Queue: queue, Lock: fmt.Sprint("lock ", i)}
	}
	for i := range maxStats - 1 {
		p.track(at("default", i))
	}
	p.track(at("other", 1))
	if p.track(at("default", maxStats)) != nil {
		t.Fatal("more lists are tracked than may be")
	}
	if n, _ := p.beginWake(at("default", maxStats), parked.Anyway); n != 1 {
		t.Errorf("%d tasks of a list that is not tracked are woken, want 1", n)
	}
	p.track(at("default", 2)).waiting = 1
	p.prune("default", []string{"lock 1"}, true)
	for _, w := range []parked.ListID{at("default", 1), at("default", 2), at("other", 1)} {
		if p.stats[w] == nil {
			t.Errorf("%v is forgotten", w)
		}
	}
	if n := len(p.stats); n != 3 {
		t.Errorf("%d lists are tracked, want 3", n)
	}
}

// While there are as many lists as a check reads, it cannot know that it has read all of them.
func TestGoneListsAreForgottenAmongMoreThanACheckReads(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		rdb := s.NewClient(t)
		p := newServer(2).parker(core.Backend{Redis: rdb}, parked.Store{Redis: rdb}, slog.New(slog.DiscardHandler))
		at := func(lock string) parked.ListID { return parked.ListID{Queue: "default", Lock: lock} }
		for i := range maxStats {
			p.track(at(fmt.Sprint("gone ", i)))
		}
		for i := range parked.MostLists {
			rdb.SAdd(t.Context(), parked.LocksOf("default"), fmt.Sprint("lock ", i))
		}
		l := &lookState{first: make(chan struct{}, 1)}
		for end := time.Now().Add(2 * unseenFor); time.Now().Before(end); time.Sleep(askEvery) {
			rdb.Set(t.Context(), parked.TurnOf("default"), "another server", 0)
			if turn, err := p.lookOnce("default", l); turn || err != nil {
				t.Fatal(turn, err)
			}
		}
		if p.track(at("new")) == nil {
			t.Error("a new list is not tracked")
		}
		if n := len(p.stats); n != parked.MostLists+1 {
			t.Errorf("%d lists are tracked, want %d", n, parked.MostLists+1)
		}
	})
}

// A node of a Cluster may be unreachable for this process. Its locks are left to another server. A client of an unknown type is asked
// for each lock, like a Cluster.
func TestACheckThatFailsForSomeLocksWakesTheTasksOfOthers(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		rdb, broken := s.NewClient(t), errors.New("the server went away")
		for id, lock := range map[string]string{"a": "lockmw:{1}", "b": "lockmw:{2}", "c": "lockmw:{3}"} {
			parkedtest.Park(t, rdb, "default", lock, time.Now(), id)
		}
		rdb.HSet(t.Context(), "lockmw:{3}", "owner", "o")
		locks := s.NewClient(t)
		locks.AddHook(redistest.Hook(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
			err := send()
			for _, cmd := range cmds {
				if slices.Equal(cmd.Args(), []any{"exists", "lockmw:{2}"}) {
					err = broken
					cmd.(*redis.Cmd).SetVal(nil)
					cmd.SetErr(err)
				}
			}
			return err
		}))
		p := newServer(2).parker(core.Backend{Redis: struct{ redis.UniversalClient }{locks}}, parked.Store{Redis: rdb}, slog.New(slog.DiscardHandler))
		turn, err := p.lookOnce("default", &lookState{first: make(chan struct{}, 1)})
		if turn || !errors.Is(err, broken) || rdb.Exists(t.Context(), parked.TurnOf("default")).Val() != 0 {
			t.Errorf("after a check that failed for some locks it has the turn; %v", err)
		}
		if got := rdb.LRange(t.Context(), "asynq:{default}:pending", 0, -1).Val(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("it woke %q, want a", got)
		}
	})
}
