package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/examples/recipes/streams"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// consumeStream is what a service runs in each of its processes.
func consumeStream(ctx context.Context, rdb redis.UniversalClient, locks *lockmw.Client, name string,
	ship func(context.Context, redis.XMessage) error,
) error {
	consumer := streams.Consumer{
		Redis: rdb, Stream: "orders", Group: "shipping", Name: name,
		Idle: 30 * time.Second, Grace: 10 * time.Second,
	}
	deadLetter := func(ctx context.Context, m redis.XMessage, attempt int, err error) error {
		if attempt < 5 && !errors.Is(err, lockmw.ErrInvalidKey) {
			return err // try again
		}
		return rdb.XAdd(ctx, &redis.XAddArgs{Stream: "orders:dead", Values: m.Values}).Err()
	}
	return consumer.Run(ctx, locks, byOrder, ship, deadLetter)
}

// A shipment counts the messages of a stream that were handled.
type shipment struct {
	mu      sync.Mutex
	handled []string
	running map[string]bool // by order
}

// handle is a handler that fails a test if it runs next to another one of its key.
func (s *shipment) handle(t *testing.T) func(context.Context, redis.XMessage) error {
	return func(_ context.Context, m redis.XMessage) error {
		order := m.Values["order"].(string)
		s.mu.Lock()
		if s.running == nil {
			s.running = make(map[string]bool)
		}
		if s.running[order] {
			t.Errorf("%s: two handlers of order %s", m.ID, order)
		}
		s.running[order] = true
		s.mu.Unlock()
		time.Sleep(time.Millisecond) // it ships
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running[order] = false
		s.handled = append(s.handled, m.ID)
		return nil
	}
}

func (s *shipment) has(ids ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Equal(s.handled, ids)
}

func add(t *testing.T, rdb *redis.Client, values map[string]any) string {
	t.Helper()
	id, err := rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "orders", Values: values}).Result()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func order(n int) map[string]any { return map[string]any{"order": fmt.Sprint(n)} }

// start runs a member until the test ends.
func start(t *testing.T, run func(ctx context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := usertest.Receive(t, "the consumer ends", done); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func noneIsPending(t *testing.T, rdb *redis.Client) {
	t.Helper()
	usertest.Eventually(t, "no message is pending", time.Minute, func() bool {
		pending, err := rdb.XPending(t.Context(), "orders", "shipping").Result()
		return err == nil && pending.Count == 0
	})
}

func bothAreReceived(t *testing.T, rdb *redis.Client) {
	t.Helper()
	usertest.Eventually(t, "both messages are received", time.Minute, func() bool {
		return rdb.XPending(t.Context(), "orders", "shipping").Val().Count == 2
	})
}

func TestMembersOfAGroupExcludeEachOtherByKey(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	rdb := s.NewClient(t)
	work := new(shipment)
	for i := range 3 {
		locks := usertest.Client(t, s)
		start(t, func(ctx context.Context) error {
			return consumeStream(ctx, rdb, locks, fmt.Sprint("member ", i), work.handle(t))
		})
	}
	const n = 300
	for i := range n {
		add(t, rdb, order(i%5))
	}
	usertest.Eventually(t, "all are handled", time.Minute, func() bool {
		work.mu.Lock()
		defer work.mu.Unlock()
		return len(work.handled) >= n
	})
	noneIsPending(t, rdb)
	slices.Sort(work.handled)
	if ids := len(slices.Compact(work.handled)); ids != n {
		t.Errorf("%d different messages were handled, want %d", ids, n)
	}
}

func TestMessagesOfAStreamThatCannotBeHandledAreDeadLetters(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	rdb, work := s.NewClient(t), new(shipment)
	locks := usertest.Client(t, s, lockmw.WithLogger(slog.New(slog.DiscardHandler)))
	add(t, rdb, map[string]any{"unparsable": "{"})
	add(t, rdb, map[string]any{"order": ""})
	add(t, rdb, map[string]any{"order": strings.Repeat("x", 2048)})
	good := add(t, rdb, order(1))
	start(t, func(ctx context.Context) error { return consumeStream(ctx, rdb, locks, "member", work.handle(t)) })
	usertest.Eventually(t, "dead letters", time.Minute, func() bool { return rdb.XLen(t.Context(), "orders:dead").Val() == 3 })
	usertest.Eventually(t, "the good one is handled", time.Minute, func() bool { return work.has(good) })
	noneIsPending(t, rdb)
}

// A process is killed in the middle of a message, with a second one of the same key behind it.
func TestMessagesOfAKilledProcessAreHandledByAnother(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	rdb, work := s.NewClient(t), new(shipment)
	child := redistest.StartChild(t, childSpec{Addr: s.Addr()})
	first, second := add(t, rdb, order(7)), add(t, rdb, order(7))
	if r := report(t, child.Reports()); r.Began != first {
		t.Fatalf("%+v, want that %s began", r, first)
	}
	bothAreReceived(t, rdb)
	survivor(t, s, rdb, work)
	child.Kill()
	usertest.Eventually(t, "both are handled, in order", time.Minute, func() bool { return work.has(first, second) })
	noneIsPending(t, rdb)
}

// survivor runs another member of the child's group.
func survivor(t *testing.T, s *redistest.Server, rdb *redis.Client, work *shipment) (stop func()) {
	locks := usertest.Client(t, s)
	return start(t, func(ctx context.Context) error {
		return membership(rdb, "survivor").Run(ctx, locks, byOrder, work.handle(t), nil, lockmw.WithLease(idle))
	})
}

// A process is stopped in the middle of a message, and continues when another one has handled its messages.
func TestAPausedProcessHandlesNothingThatWasTakenOver(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	rdb, work := s.NewClient(t), new(shipment)
	child := redistest.StartChild(t, childSpec{Addr: s.Addr()})
	first, second := add(t, rdb, order(7)), add(t, rdb, order(7))
	if r := report(t, child.Reports()); r.Began != first {
		t.Fatalf("%+v, want that %s began", r, first)
	}
	bothAreReceived(t, rdb)
	child.Pause(t)
	stop := survivor(t, s, rdb, work)
	usertest.Eventually(t, "both are handled, in order", time.Minute, func() bool { return work.has(first, second) })
	child.Resume(t)
	if r := report(t, child.Reports()); r.Ended != first {
		t.Errorf("%+v, want that %s ended", r, first)
	}
	stop()
	third := add(t, rdb, order(7)) // comes to the child, behind both
	if r := report(t, child.Reports()); r.Began != third {
		t.Errorf("%+v, want that %s began next", r, third)
	}
	child.Kill()
}

// The locks are in a Redis of their own, which is away for a while.
func TestMessagesOfAStreamWaitForTheRedisOfTheLocks(t *testing.T) {
	t.Parallel()
	s, away := redistest.Redis(t), redistest.Redis(t)
	rdb, work := s.NewClient(t), new(shipment)
	locks := usertest.Client(t, away, lockmw.WithLogger(slog.New(slog.DiscardHandler)))
	start(t, func(ctx context.Context) error { return consumeStream(ctx, rdb, locks, "member", work.handle(t)) })
	first := add(t, rdb, order(7))
	usertest.Eventually(t, "the first is handled", time.Minute, func() bool { return work.has(first) })
	noneIsPending(t, rdb)
	away.Kill()
	second, third := add(t, rdb, order(7)), add(t, rdb, order(7))
	bothAreReceived(t, rdb)
	away.Restart(t)
	usertest.Eventually(t, "both are handled, in order", time.Minute, func() bool { return work.has(first, second, third) })
	if n := rdb.XLen(t.Context(), "orders:dead").Val(); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

func TestMessagesOfAStreamThatWaitAreNotTakenOver(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	rdb, work, locks := s.NewClient(t), new(shipment), lockmw.NewLocal()
	release := usertest.Occupy(t, locks, "order:7")
	const idle = 3 * idle // a busy machine may keep a member from its refreshes for a second
	join := func(name string) {
		member := membership(rdb, name)
		member.Idle = idle
		start(t, func(ctx context.Context) error { return member.Run(ctx, locks, byOrder, work.handle(t), nil) })
	}
	join("first")
	id := add(t, rdb, order(7))
	owner := func() string {
		pending := rdb.XPendingExt(t.Context(), &redis.XPendingExtArgs{Stream: "orders", Group: "shipping", Start: "-", End: "+", Count: 1}).Val()
		if len(pending) == 0 {
			return ""
		}
		return pending[0].Consumer
	}
	usertest.Eventually(t, "it is received", time.Minute, func() bool { return owner() == "first" })
	for i := range 5 {
		join(fmt.Sprint("other ", i))
	}
	usertest.Receive(t, "time passes", time.After(2*idle))
	if o := owner(); o != "first" {
		t.Errorf("it belongs to %q", o)
	}
	release()
	usertest.Eventually(t, "it is handled", time.Minute, func() bool { return work.has(id) })
	noneIsPending(t, rdb)
}

// The first message begins when both have waited. Its sign of life counts for both: the second one must not be taken over first.
func TestAMessageThatBeginsKeepsThoseBehindIt(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	rdb, locks, began := s.NewClient(t), lockmw.NewLocal(), make(chan struct{}, 2)
	release := usertest.Occupy(t, locks, "order:7")
	member := membership(rdb, "member")
	member.Idle, member.Grace = time.Hour, 10*time.Millisecond // it does not refresh
	start(t, func(ctx context.Context) error {
		return member.Run(ctx, locks, byOrder, func(ctx context.Context, _ redis.XMessage) error {
			began <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}, nil)
	})
	add(t, rdb, order(7))
	add(t, rdb, order(7))
	bothAreReceived(t, rdb)
	idle := func() (first, second time.Duration) {
		pending := rdb.XPendingExt(t.Context(), &redis.XPendingExtArgs{Stream: "orders", Group: "shipping", Start: "-", End: "+", Count: 2}).Val()
		return pending[0].Idle, pending[1].Idle
	}
	usertest.Eventually(t, "both have waited", time.Minute, func() bool { _, second := idle(); return second > 50*time.Millisecond })
	release()
	usertest.Receive(t, "the first begins", began)
	if first, second := idle(); second > first {
		t.Errorf("the first has been idle for %v, the second one for %v", first, second)
	}
}

// A member that stops leaves its messages to the others immediately, not after Idle.
func TestAMemberThatStopsHandsItsMessagesBack(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	rdb, work := s.NewClient(t), new(shipment)
	began := make(chan struct{}, 1)
	locks := usertest.Client(t, s)
	leaver := membership(rdb, "leaver")
	leaver.Idle, leaver.Grace = 30*time.Second, 10*time.Millisecond
	stop := start(t, func(ctx context.Context) error {
		return leaver.Run(ctx, locks, byOrder, func(ctx context.Context, _ redis.XMessage) error {
			began <- struct{}{}
			<-ctx.Done()
			return nil // done in spite of that
		}, nil)
	})
	_, second := add(t, rdb, order(7)), add(t, rdb, order(7))
	usertest.Receive(t, "the first begins", began)
	bothAreReceived(t, rdb)
	stop()
	begin := time.Now()
	start(t, func(ctx context.Context) error { return consumeStream(ctx, rdb, locks, "heir", work.handle(t)) })
	usertest.Eventually(t, "the second is handled", time.Minute, func() bool { return work.has(second) })
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("after %v", took)
	}
}
