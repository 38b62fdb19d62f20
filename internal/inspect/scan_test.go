package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/transport"
)

const prefix = "lockmw"

// put stores a held lock with this many tickets in its queue.
func put(t *testing.T, rdb redis.UniversalClient, cluster bool, key string, tickets int) {
	t.Helper()
	l := script.NewLayout(prefix, transport.Topology{Cluster: cluster})
	n := l.KeySet(key)
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		p.HSet(t.Context(), n.Holder(), "id", "a.1", "owner", "owner", "token", time.Now().UnixMicro(), "inbox", l.InboxPrefix()+"web-1")
		p.PExpire(t.Context(), n.Holder(), time.Hour)
		for i := range tickets {
			p.ZAdd(t.Context(), n.Queue(), redis.Z{Score: float64(i + 1), Member: fmt.Sprint("b.", i)})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// inPages is a Scan that reads the locks of onManyLocks in several pages. The embedded server returns one page only.
var inPages = Scan{Share: 1, pageSize: 20}

// onManyLocks runs test on servers with several batches of locks. Every third lock has a queue.
func onManyLocks(t *testing.T, test func(i *Inspector, keys map[string]int)) {
	t.Helper()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		rdb := s.NewClient(t)
		keys := make(map[string]int)
		for j := range 4 * batchSize {
			key := fmt.Sprint("user:", j)
			keys[key] = j % 3 / 2 * 2
			put(t, rdb, false, key, keys[key])
		}
		i, err := New(rdb, Config{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		test(i, keys)
	})
}

// wantOnce checks that each key was yielded once.
func wantOnce(t *testing.T, found, keys map[string]int) {
	t.Helper()
	for key := range keys {
		if found[key] != 1 {
			t.Errorf("%s comes %d times", key, found[key])
		}
	}
	if len(found) != len(keys) {
		t.Errorf("%d keys are found, want %d", len(found), len(keys))
	}
}

func TestAScanYieldsEveryLockAndReportsProgress(t *testing.T) {
	onManyLocks(t, func(i *Inspector, keys map[string]int) {
		found := make(map[string]int)
		var told []Progress
		how := inPages
		how.Progress = func(p Progress) { told = append(told, p) }
		for s, err := range i.All(t.Context(), how) {
			if err != nil {
				t.Fatal(err)
			}
			found[s.Key]++
			if len(s.Holders) != 1 || len(s.Waiters) != keys[s.Key] {
				t.Errorf("%s has %d holders and %d waiters, want 1 and %d", s.Key, len(s.Holders), len(s.Waiters), keys[s.Key])
			}
		}
		wantOnce(t, found, keys)
		if last := told[len(told)-1]; last != (Progress{Locks: len(keys), Part: 1}) {
			t.Errorf("the last progress is %+v", last)
		}
		if len(told) < 2 || told[0].Locks != 0 || !slices.IsSortedFunc(told, func(a, b Progress) int {
			return cmp.Or(cmp.Compare(a.Locks, b.Locks), cmp.Compare(a.Part, b.Part))
		}) {
			t.Errorf("the progress is %+v", told)
		}
	})
}

// repeating makes SCAN return every key twice, which Redis allows.
type repeating struct{ counted }

func (r repeating) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := r.counted.ProcessHook(next)(ctx, cmd)
		if scan, ok := cmd.(*redis.ScanCmd); ok {
			page, cursor := scan.Val()
			scan.SetVal(slices.Concat(page, page), cursor)
		}
		return err
	}
}

func TestRepeatedKeysAreYieldedOnce(t *testing.T) {
	onManyLocks(t, func(i *Inspector, keys map[string]int) {
		for key := range keys {
			n := i.layout.KeySet(key)
			if err := i.rdb.Set(t.Context(), n.Kept("task"), time.Now().UnixMicro(), time.Hour).Err(); err != nil {
				t.Fatal(err)
			}
		}
		i.rdb.AddHook(repeating{counted{new(atomic.Int64)}})
		found := make(map[string]int)
		for s, err := range i.All(t.Context(), inPages) {
			if err != nil {
				t.Fatal(err)
			}
			found[s.Key]++
			if len(s.Kept) != 1 {
				t.Errorf("%s has the kept places %+v, want one", s.Key, s.Kept)
			}
		}
		wantOnce(t, found, keys)
	})
}

// counted counts requests: single commands and pipelines.
type counted struct{ sent *atomic.Int64 }

func (counted) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c counted) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.sent.Add(1)
		return next(ctx, cmd)
	}
}

func (c counted) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.sent.Add(1)
		return next(ctx, cmds)
	}
}

func TestAScanEndsWhereTheCallerStops(t *testing.T) {
	onManyLocks(t, func(i *Inspector, keys map[string]int) {
		var sent atomic.Int64
		i.rdb.AddHook(counted{&sent})
		take := func(n int) {
			for _, err := range i.All(t.Context(), Scan{Share: 1}) {
				if err != nil {
					t.Fatal(err)
				}
				if n--; n == 0 {
					break
				}
			}
		}
		take(1) // loads the script
		sent.Store(0)
		take(10)
		if got := sent.Load(); got != 3 {
			t.Errorf("10 of %d keys took %d requests, want 3: two pages and a batch", len(keys), got)
		}
	})
}

func TestAScanEndsWithItsContext(t *testing.T) {
	onManyLocks(t, func(i *Inspector, keys map[string]int) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		found, ended := 0, false
		for s, err := range i.All(ctx, inPages) {
			if s == nil && !errors.Is(err, context.Canceled) {
				t.Errorf("the scan ends with %v", err)
			}
			ended = ended || s == nil
			found++
			cancel()
		}
		if !ended || found > batchSize+1 {
			t.Errorf("%d locks come after the end of the context; the scan reports it: %t", found, ended)
		}
	})
}

func TestAKeyThatCannotBeReadDoesNotEndAScan(t *testing.T) {
	onManyLocks(t, func(i *Inspector, keys map[string]int) {
		const theirs = "user:x"
		if err := i.rdb.Set(t.Context(), prefix+":{"+theirs+"}", "theirs", 0).Err(); err != nil {
			t.Fatal(err)
		}
		found, wrong := make(map[string]int), 0
		for s, err := range i.All(t.Context(), inPages) {
			switch {
			case s == nil:
				t.Fatal(err)
			case err == nil:
				found[s.Key]++
			case s.Key == theirs && errors.Is(err, core.ErrWrongType):
				wrong++
			default:
				t.Errorf("%s: %v", s.Key, err)
			}
		}
		wantOnce(t, found, keys)
		if wrong != 1 {
			t.Errorf("the foreign key comes %d times with its error", wrong)
		}
	})
}

func TestAScanReportsAnUnreachableServer(t *testing.T) {
	s := redistest.Mini(t)
	rdb := s.NewClient(t, func(o *redis.Options) { o.MaxRetries = -1 })
	for j := range 2 * batchSize {
		put(t, rdb, false, fmt.Sprint("user:", j), 0)
	}
	i, err := New(rdb, Config{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	var last error
	keys := 0
	for s, err := range i.All(t.Context(), Scan{Share: 1}) {
		if s != nil {
			keys++
		}
		last = err
		if keys == 1 {
			rdb.AddHook(gone{})
		}
	}
	if !errors.Is(last, core.ErrUnavailable) || keys != batchSize {
		t.Errorf("after %d keys the scan ends with %v", keys, last)
	}
}

// gone is an unreachable server.
type gone struct{ redis.Hook }

func (gone) DialHook(next redis.DialHook) redis.DialHook { return next }

func (gone) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { return io.EOF }
}

func (gone) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			cmd.SetErr(io.EOF)
		}
		return io.EOF
	}
}

// slow is a server with slow answers.
type slow struct {
	counted
	answer time.Duration
}

func (s slow) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		time.Sleep(s.answer)
		return s.counted.ProcessHook(next)(ctx, cmd)
	}
}

func (s slow) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		time.Sleep(s.answer)
		return s.counted.ProcessPipelineHook(next)(ctx, cmds)
	}
}

func TestAScanKeepsToItsShareOfTheTime(t *testing.T) {
	defer race.OneProcessor()()
	for _, share := range []float64{1, 0.5, 0.01} {
		synctest.Test(t, func(t *testing.T) {
			rdb := redistest.Piped(t).NewClient(t)
			for j := range 3 * batchSize {
				put(t, rdb, false, fmt.Sprint("user:", j), 0)
			}
			i, err := New(rdb, Config{Prefix: prefix})
			if err != nil {
				t.Fatal(err)
			}
			const answer = 10 * time.Millisecond
			var sent atomic.Int64
			rdb.AddHook(slow{counted{&sent}, answer})
			started := time.Now()
			for _, err := range i.All(t.Context(), Scan{Share: share}) {
				if err != nil {
					t.Fatal(err)
				}
			}
			work := time.Duration(sent.Load()) * answer
			if got, want := time.Since(started), time.Duration(float64(work)/share); got.Round(time.Millisecond) != want.Round(time.Millisecond) {
				t.Errorf("with a share of %v, %v of work take %v, want %v", share, work, got, want)
			}
		})
	}
}

func TestAScanOfACluster(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 3, 0)
	rdb := c.Client(t)
	keys := make(map[string]int)
	for node := range 3 {
		for range batchSize + 1 {
			key := c.KeyAt(node)
			keys[key] = 2
			put(t, rdb, true, key, keys[key])
		}
	}
	i, err := New(rdb, Config{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]int)
	for s, err := range i.All(t.Context(), Scan{Share: 1}) {
		if err != nil {
			t.Fatalf("%+v: %v", s, err)
		}
		found[s.Key]++
		if len(s.Holders) != 1 || len(s.Waiters) != 2 {
			t.Errorf("%s is %+v", s.Key, s)
		}
		if len(found) == batchSize {
			c.Move(s.Key) // to a node that is scanned later, or was scanned before: the key must not come again
		}
	}
	wantOnce(t, found, keys)
}
