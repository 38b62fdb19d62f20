package asynqmw

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/lockmw"
)

// A Scheduler enqueues periodic tasks. *asynq.Scheduler and *asynq.PeriodicTaskManager implement it.
type Scheduler interface {
	Start() error
	Shutdown()
}

// RunScheduler runs only one Scheduler at a time over all replicas, so that each periodic task is enqueued once. It runs in the
// leader that lockmw.Lead elects by key. newScheduler is called for each term of a leader; its Scheduler is shut down before the
// next replica leads:
//
//	err := asynqmw.RunScheduler(ctx, locks, "lead:scheduler", redisOpt,
//		func(redisOpt asynq.RedisConnOpt) (asynqmw.Scheduler, error) {
//			s := asynq.NewScheduler(redisOpt, nil)
//			_, err := s.Register("@every 1m", asynq.NewTask("report", nil))
//			return s, err
//		})
//
// Give the Scheduler the connection that newScheduler receives, not the redisOpt that you pass: only the former refuses to enqueue
// once the lock is lost, by this process's clock. Otherwise a process that was paused for longer than the lease would, when it
// resumes, enqueue the tasks that were due in the meantime. asynq reports such a refusal as an error with the words "not enqueued".
// redisOpt must make a new client each time, as asynq's own types do.
//
// RunScheduler returns the error of lockmw.Lead: an error of newScheduler or Start, a *lockmw.Error that wraps lockmw.ErrClosed
// when the Client is shut down, or the error of ctx when ctx ends. It takes the options of Lead and, like Lead, refuses read locks
// and semaphores.
//
// After a leader has crashed, none leads until its lease has expired. Ticks in that time are not enqueued later. A tick may be
// enqueued twice if the leader changes at that moment and the clocks of the two replicas differ, or if Redis fails over and loses
// the lock. Give such tasks asynq.Unique if that matters.
func RunScheduler(ctx context.Context, l lockmw.Locker, key string, redisOpt asynq.RedisConnOpt,
	newScheduler func(asynq.RedisConnOpt) (Scheduler, error), opts ...lockmw.Option,
) error {
	if redisOpt == nil || newScheduler == nil {
		return fmt.Errorf("asynqmw: RunScheduler %q: %w: an argument is nil", key, lockmw.ErrInvalidOption)
	}
	return lockmw.Lead(ctx, l, key, func(ctx context.Context) error {
		s, err := newScheduler(leaderConnOpt{redisOpt, ctx})
		if err == nil && s == nil {
			err = errors.New("newScheduler returned nil")
		}
		if err != nil {
			return fmt.Errorf("asynqmw: RunScheduler %q: %w", key, err)
		}
		defer s.Shutdown()
		if err := s.Start(); err != nil {
			return fmt.Errorf("asynqmw: RunScheduler %q: %w", key, err)
		}
		<-ctx.Done()
		return ctx.Err()
	}, opts...)
}

// A leaderConnOpt makes clients that refuse to enqueue once the leader's context has ended.
type leaderConnOpt struct {
	asynq.RedisConnOpt
	leader context.Context
}

func (o leaderConnOpt) MakeRedisClient() any {
	client := o.RedisConnOpt.MakeRedisClient()
	if c, ok := client.(redis.UniversalClient); ok {
		c.AddHook(leaderHook{o.leader})
	}
	return client
}

// A leaderHook refuses scripts once the leader's context has ended, because asynq enqueues by scripts. Other commands pass, so
// that a Scheduler can clean up when it is shut down.
type leaderHook struct{ leader context.Context }

func (leaderHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h leaderHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := h.refuse(cmd); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

func (h leaderHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := h.refuse(cmds...); err != nil {
			return err
		}
		return next(ctx, cmds)
	}
}

// refuse returns the error of all of cmds if one of them must not be sent.
func (h leaderHook) refuse(cmds ...redis.Cmder) error {
	if h.leader.Err() == nil || !slices.ContainsFunc(cmds, parked.IsEnqueue) {
		return nil
	}
	err := fmt.Errorf("asynqmw: not enqueued: %w", context.Cause(h.leader))
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
	return err
}
