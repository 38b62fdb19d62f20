package recipes_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/consume"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// Another member takes a message over while it is handled, as after a pause. Then the other one decides about the message.
func TestAMemberLeavesAFailedMessageThatWasTakenOver(t *testing.T) {
	t.Parallel()
	t.Run("its handler fails", func(t *testing.T) { leaves(t, func(context.Context) error { return errShipping }) })
	t.Run("its lock is lost", func(t *testing.T) {
		leaves(t, func(ctx context.Context) error { <-ctx.Done(); return nil }, lockmw.WithMaxHold(100*time.Millisecond))
	})
}

func leaves(t *testing.T, fail func(context.Context) error, opts ...consume.Option) {
	s := redistest.Redis(t)
	rdb, again := s.NewClient(t), make(chan struct{}, 10)
	member := membership(rdb, "member")
	member.Idle = time.Hour
	handle := func(ctx context.Context, m redis.XMessage) error {
		defer func() { again <- struct{}{} }()
		if m.Values["order"] == "8" {
			return nil
		}
		err := rdb.XClaim(t.Context(), &redis.XClaimArgs{Stream: "orders", Group: "shipping", Consumer: "other", Messages: []string{m.ID}}).Err()
		return errors.Join(fail(ctx), err)
	}
	giveUp := func(_ context.Context, m redis.XMessage, _ int, err error) error {
		if m.Values["order"] == "7" {
			t.Errorf("%s is given up for %v", m.ID, err)
		}
		return err
	}
	start(t, func(ctx context.Context) error {
		return member.Run(ctx, lockmw.NewLocal(), lockmw.Const[redis.XMessage]("orders"), handle, giveUp, opts...)
	})
	id := add(t, rdb, order(7))
	usertest.Receive(t, "it is handled", again)
	add(t, rdb, order(8))
	usertest.Receive(t, "the next one is handled", again)
	pending := rdb.XPendingExt(t.Context(), &redis.XPendingExtArgs{Stream: "orders", Group: "shipping", Start: "-", End: "+", Count: 1}).Val()
	if len(pending) != 1 || pending[0].ID != id || pending[0].Consumer != "other" {
		t.Errorf("%+v is pending, want %s of the other member", pending, id)
	}
}

// The Redis of the stream is away when a handled message is to be acknowledged, and does not come back.
func TestAMemberStopsWithoutItsRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	rdb, handled := s.NewClient(t), make(chan struct{})
	member := membership(rdb, "member")
	member.Idle, member.Grace = time.Hour, time.Millisecond
	stop := start(t, func(ctx context.Context) error {
		return member.Run(ctx, lockmw.NewLocal(), byOrder, func(context.Context, redis.XMessage) error {
			s.Kill()
			close(handled)
			return nil
		}, nil)
	})
	add(t, rdb, order(7))
	usertest.Receive(t, "it is handled", handled)
	stop()
}

// An outage is a hook of a Redis client. The next scripts fail.
type outage struct {
	scripts atomic.Int32
}

func (*outage) DialHook(next redis.DialHook) redis.DialHook { return next }
func (*outage) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (o *outage) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") && o.scripts.Add(-1) >= 0 {
			return syscall.ECONNREFUSED
		}
		return next(ctx, cmd)
	}
}

// The Redis of the stream does not say whether the member still has the message.
func TestAMessageHasNotFailedWhileTheRedisOfItsStreamIsUnreachable(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	rdb, away, handled := s.NewClient(t), new(outage), make(chan struct{})
	away.scripts.Store(5)
	rdb.AddHook(away)
	giveUp := func(_ context.Context, m redis.XMessage, attempt int, err error) error {
		t.Errorf("%s is given up after %d attempts for %v", m.ID, attempt, err)
		return err
	}
	member := membership(rdb, "member")
	member.Idle = time.Hour
	start(t, func(ctx context.Context) error {
		return member.Run(ctx, lockmw.NewLocal(), byOrder, func(context.Context, redis.XMessage) error { close(handled); return nil }, giveUp,
			consume.WithRetry(time.Millisecond, time.Millisecond))
	})
	add(t, rdb, order(7))
	usertest.Receive(t, "it is handled", handled)
}

// More messages are in hand than one XAUTOCLAIM looks at, and the one of the dead member is behind them.
func TestMessagesOfADeadMemberAreFoundBehindMessagesInHand(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	rdb, work := s.NewClient(t), new(shipment)
	receive := func(consumer string, n int64) {
		t.Helper()
		err := rdb.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "shipping", Consumer: consumer, Streams: []string{"orders", ">"}, Count: n}).Err()
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := rdb.XGroupCreateMkStream(t.Context(), "orders", "shipping", "0").Err(); err != nil {
		t.Fatal(err)
	}
	const inHand = 250
	for i := range inHand {
		add(t, rdb, order(i))
	}
	receive("busy", inHand)
	id := add(t, rdb, order(7))
	receive("dead", 1)
	err := rdb.Do(t.Context(), "XCLAIM", "orders", "shipping", "dead", 0, id, "IDLE", (2 * time.Hour).Milliseconds()).Err()
	if err != nil {
		t.Fatal(err)
	}
	member := membership(rdb, "member")
	member.Idle = time.Hour
	start(t, func(ctx context.Context) error {
		return member.Run(ctx, lockmw.NewLocal(), byOrder, work.handle(t), nil)
	})
	usertest.Eventually(t, "it is handled", time.Minute, func() bool { return work.has(id) })
}
