package parked_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

// looks compares what Look returns. It then makes the turn last for as long as the test takes.
func (tb *table) looks(id string, turn bool, locks ...string) {
	tb.t.Helper()
	got, mine, err := tb.store.Look(context.Background(), "default", id)
	if err != nil || mine != turn || !slices.Equal(got, locks) {
		tb.t.Errorf("server %s sees %v, and has the turn: %v, %v; want %v, %v", id, got, mine, err, locks, turn)
	}
	if !turn {
		return
	}
	looker := parked.TurnOf("default")
	if left := tb.rdb.PTTL(context.Background(), looker).Val(); left <= 0 || left > parked.TurnTTL {
		tb.t.Errorf("the turn of server %s lasts for another %v", id, left)
	}
	tb.do("PERSIST", looker)
}

func TestOneServerHasTheTurnToLook(t *testing.T) {
	eachTable(t, func(tb *table) {
		looker := parked.TurnOf("default")
		tb.looks("a", false)
		if tb.rdb.Exists(t.Context(), looker).Val() != 0 {
			t.Error("a server has the turn although there is no list")
		}
		tb.parks("first")
		tb.looks("a", true, tb.want.Lock)
		tb.looks("b", false, tb.want.Lock)
		tb.looks("a", true, tb.want.Lock) // as does a copy of its call
		for range 2 {
			tb.ends("b")
		}
		tb.looks("b", false, tb.want.Lock)
		for range 2 {
			tb.ends("a")
		}
		tb.looks("b", true, tb.want.Lock)
		tb.ends("a") // a late copy
		tb.looks("a", false, tb.want.Lock)
		tb.do("DEL", looker) // b has died
		tb.looks("a", true, tb.want.Lock)
	})
}

func (tb *table) ends(id string) {
	tb.t.Helper()
	if err := tb.store.EndTurn(context.Background(), "default", id); err != nil {
		tb.t.Error(err)
	}
}

func TestFreeLocksAreFoundWithFewCommands(t *testing.T) {
	const most = 1000
	rdb := redistest.Mini(t).NewClient(t)
	var commands, trips atomic.Int32
	var locks []string
	for i := range most {
		locks = append(locks, fmt.Sprintf("lockmw:{item:%d}", i))
	}
	rdb.AddHook(redistest.Hook(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
		if cmds[0].Name() == "exists" {
			commands.Add(int32(len(cmds)))
			trips.Add(1)
		}
		return send()
	}))
	for name, tt := range map[string]struct {
		free            []int
		commands, trips int32
	}{
		"all are held": {nil, 1, 1},
		"the first":    {[]int{0}, 21, 11},
		"three":        {[]int{1, 500, 999}, 61, 11},
	} {
		t.Run(name, func(t *testing.T) {
			rdb.FlushAll(t.Context())
			var want []string
			for i, lock := range locks {
				if slices.Contains(tt.free, i) {
					want = append(want, lock)
				} else {
					rdb.HSet(t.Context(), lock, "owner", "o")
				}
			}
			commands.Store(0)
			trips.Store(0)
			free, err := parked.Free(t.Context(), rdb, locks)
			slices.Sort(free)
			slices.Sort(want)
			if err != nil || !slices.Equal(free, want) {
				t.Errorf("free are %v, %v; want %v", free, err, want)
			}
			if n, m := commands.Load(), trips.Load(); n > tt.commands || m > tt.trips {
				t.Errorf("%d commands in %d round trips, want %d in %d at most", n, m, tt.commands, tt.trips)
			}
		})
	}
	rdb.FlushAll(t.Context())
	commands.Store(0)
	if free, err := parked.Free(t.Context(), rdb, locks); err != nil || len(free) != most || commands.Load() != 1 {
		t.Errorf("%d are free, %v, and it took %d commands", len(free), err, commands.Load())
	}
	if free, err := parked.Free(t.Context(), rdb, nil); err != nil || len(free) != 0 {
		t.Errorf("none: %v, %v", free, err)
	}
	if _, err := parked.Free(canceled(t), rdb, locks); err == nil {
		t.Error("no error after a cancellation")
	}
}

// A client of an unknown type is asked for each lock, like a Cluster.
type unknownClient struct{ redis.UniversalClient }

func TestOneLockThatCannotBeCheckedHidesNoFreeOne(t *testing.T) {
	broken, locks := errors.New("a node is unreachable"), []string{"lockmw:{a}", "lockmw:{b}", "lockmw:{c}", "lockmw:{d}"}
	for name, tt := range map[string]struct {
		fail redistest.Hook // for the second lock, which seems to be free
		want []string
	}{
		"no answer about one": {func(_ context.Context, cmds []redis.Cmder, send func() error) error {
			err := send()
			for _, cmd := range cmds {
				if cmd.Args()[1] == locks[1] {
					err = broken
					cmd.(*redis.Cmd).SetVal(nil)
					cmd.SetErr(err)
				}
			}
			return err
		}, []string{locks[0], locks[3]}},
		"no answer about one until the context ends": {func(_ context.Context, cmds []redis.Cmder, send func() error) error {
			_ = send()
			for _, cmd := range cmds {
				if cmd.Args()[1] == locks[1] {
					cmd.(*redis.Cmd).SetVal(nil)
				}
				cmd.SetErr(broken) // as go-redis does in a Cluster
			}
			return broken
		}, []string{locks[0], locks[3]}},
		"no answer": {func(context.Context, []redis.Cmder, func() error) error { return broken }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			rdb := redistest.Mini(t).NewClient(t)
			rdb.HSet(t.Context(), locks[2], "owner", "o")
			rdb.AddHook(tt.fail)
			if free, err := parked.Free(t.Context(), unknownClient{rdb}, locks); !errors.Is(err, broken) || !slices.Equal(free, tt.want) {
				t.Errorf("free are %v, %v; want %v, %v", free, err, tt.want, broken)
			}
		})
	}
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestTheLocksOfAClusterAreLookedAt(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to start")
	rdb := redistest.NewCluster(t, 3, 0).Client(t)
	var locks []string
	for i := range 20 {
		lock := fmt.Sprintf("lockmw:{item:%d}", i)
		locks = append(locks, lock)
		if i != 7 {
			rdb.HSet(t.Context(), lock, "owner", "o")
		}
	}
	if err := rdb.SAdd(t.Context(), parked.LocksOf("default"), locks).Err(); err != nil {
		t.Fatal(err)
	}
	store := parked.Store{Redis: rdb}
	seen, turn, err := store.Look(t.Context(), "default", "a")
	if err != nil || !turn || len(seen) != len(locks) {
		t.Fatalf("seen are %v, turn %v, %v", seen, turn, err)
	}
	if free, err := parked.Free(t.Context(), rdb, seen); err != nil || !slices.Equal(free, []string{"lockmw:{item:7}"}) {
		t.Errorf("free are %v, %v", free, err)
	}
}
