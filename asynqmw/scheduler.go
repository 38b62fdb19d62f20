package asynqmw

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/lockmw"
)

// A Scheduler enqueues tasks at their times: an *asynq.Scheduler or an *asynq.PeriodicTaskManager.
type Scheduler interface {
	Start() error
	Shutdown()
}

// RunScheduler runs a Scheduler in one of several replicas: in the leader that lockmw.Lead elects by key. Each term of
// a leader has a Scheduler of its own, which newScheduler makes, and which is shut down before the next replica leads:
//
//	err := asynqmw.RunScheduler(ctx, locks, "lead:scheduler", redisOpt,
//		func(redisOpt asynq.RedisConnOpt) (asynqmw.Scheduler, error) {
//			s := asynq.NewScheduler(redisOpt, nil)
//			_, err := s.Register("@every 1m", asynq.NewTask("report", nil))
//			return s, err
//		})
//
// newScheduler has to give its Scheduler the connection that it gets, not redisOpt itself: that one refuses to enqueue
// from the moment on at which the lock is lost, by this process' clock. A process that was stopped for longer than the
// lease would otherwise enqueue what was due meanwhile, when it goes on. asynq reports such a refusal, as an error with the
// words "not enqueued". redisOpt must make a new client each time, as those of asynq do.
//
// RunScheduler returns what lockmw.Lead returns: an error of newScheduler or Start, an *Error that wraps
// lockmw.ErrClosed when the Client is shut down, or the error of ctx when ctx ends. The options are those of Lead, and so are
// the Lockers that it refuses: one that reads, and a semaphore.
//
// What is due while nobody leads, within the lease of a leader that crashed, is not enqueued later. A tick may be enqueued
// twice if the clocks of two replicas differ and the leader changes at that moment, and after a fail-over of a Redis that
// lost the lock: where that matters, give the tasks asynq.Unique.
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

// A leaderConnOpt makes clients that enqueue nothing once the leader's context has ended.
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

// A leaderHook refuses scripts, by which asynq enqueues, once the leader's context has ended. Other commands pass: with
// them a Scheduler that is shut down tidies up.
type leaderHook struct{ leader context.Context }

func (leaderHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h leaderHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := h.refuse(cmd); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (h leaderHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if err := h.refuse(cmd); err != nil {
				for _, cmd := range cmds {
					cmd.SetErr(err)
				}
				return err
			}
		}
		return next(ctx, cmds)
	}
}

func (h leaderHook) refuse(cmd redis.Cmder) error {
	if h.leader.Err() == nil || !parked.IsEnqueue(cmd) {
		return nil
	}
	return fmt.Errorf("asynqmw: not enqueued: %w", context.Cause(h.leader))
}
