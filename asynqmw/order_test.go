package asynqmw_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// Tasks that find their lock busy get it in the order in which they came, however long it is held. Each one meets the lock before
// the next one is enqueued, because a server that fetches two tasks together may swap them.
func TestTasksThatWaitAreNotOvertaken(t *testing.T) {
	const tasks = 10
	plain := func(c *lockmw.Client) lockmw.Locker { return c }
	fair := func(c *lockmw.Client) lockmw.Locker { return fairlock.New(c) }
	for name, tt := range map[string]struct {
		servers int
		locker  func(*lockmw.Client) lockmw.Locker
		opts    []asynqmw.Option
		apart   time.Duration // from the start of a task until the next one is enqueued
		held    time.Duration // after the last one
	}{
		"released while the oldest waits in its worker": {servers: 1, locker: plain, apart: 20 * time.Millisecond, held: 100 * time.Millisecond},
		"released when the oldest has been parked":      {servers: 1, locker: plain, apart: 100 * time.Millisecond, held: 200 * time.Millisecond},
		"held for long":                                    {servers: 1, locker: plain, apart: 100 * time.Millisecond, held: 5 * time.Second},
		"with a fair lock":                                 {servers: 1, locker: fair, apart: 100 * time.Millisecond, held: 200 * time.Millisecond},
		"on three servers":                                 {servers: 3, locker: plain, apart: 100 * time.Millisecond, held: 200 * time.Millisecond},
		"on three servers, held for long":                  {servers: 3, locker: plain, apart: 100 * time.Millisecond, held: 5 * time.Second},
		"on three servers with a fair lock, held for long": {servers: 3, locker: fair, apart: 100 * time.Millisecond, held: 5300 * time.Millisecond},
		"a fair lock that keeps places, while all wait":    {servers: 2, locker: fair, apart: 20 * time.Millisecond, held: 100 * time.Millisecond, opts: []asynqmw.Option{asynqmw.WithPlaceKept(time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, redis asynq.RedisConnOpt) {
				s := redis.(pipedRedis).s
				q, began, ran := newQueue(t, redis), make(chan string, 100*tasks), make(chan string, tasks)
				release := usertest.Occupy(t, tt.locker(usertest.Client(t, s)), "item:7")
				h := asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
					ran <- task.Headers()["n"]
					<-time.After(30 * time.Millisecond) // the work, long enough that only one task is woken at a time
					return nil
				})
				key := func(ctx context.Context, task *asynq.Task) (string, error) {
					began <- task.Headers()["n"]
					return byItem(ctx, task)
				}
				for range tt.servers {
					startServer(t, redis, parked(2*tasks), asynqmw.WithLock(tt.locker(usertest.Client(t, s)), key, tt.opts...)(h))
				}
				var want []string
				for i := range tasks {
					n := strconv.Itoa(i)
					want = append(want, n)
					q.enqueue(asynq.NewTaskWithHeaders("order:fulfil", []byte(`{"Item":"7"}`), map[string]string{"n": n}))
					eventually(t, func() bool { return receive(t, began) == n })
					<-time.After(tt.apart)
				}
				<-time.After(tt.held)
				release()
				var got []string
				for range tasks {
					got = append(got, receive(t, ran))
				}
				if !slices.Equal(got, want) {
					t.Errorf("they ran in the order %v", got)
				}
			})
		})
	}
}
