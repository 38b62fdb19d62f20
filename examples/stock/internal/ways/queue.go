package ways

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"
)

const typeStore = "order:store"

// An orderTask is the payload of a task.
type orderTask struct {
	Item, User string
	StopAt     Point `json:",omitempty"` // for fault scripts
}

// openScript answers as soon as Redis has counted the order. An asynq server in each process takes the payment and stores
// the order.
func openScript(e *Env) (Buy, error) {
	queue := asynq.NewClient(e.Asynq())
	e.OnClose(queue.Close)
	workers := asynq.NewServer(e.Asynq(), asynq.Config{
		Concurrency:              16,
		Queues:                   map[string]int{e.Name: 1},
		TaskCheckInterval:        20 * time.Millisecond,
		DelayedTaskCheckInterval: 100 * time.Millisecond,
		ShutdownTimeout:          time.Second,
		LogLevel:                 asynq.FatalLevel,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 100 * time.Millisecond },
	})
	mux := asynq.NewServeMux()
	mux.HandleFunc(typeStore, e.storeTask)
	if err := workers.Start(mux); err != nil {
		return nil, err
	}
	e.OnClose(func() error { workers.Shutdown(); return nil })
	if err := e.enqueueForgotten(queue); err != nil {
		return nil, err
	}
	return func(ctx context.Context, c *Call) error {
		if err := e.reserveByScript(ctx, c); err != nil {
			return err
		}
		err := e.enqueue(ctx, queue, orderTask{c.Item, c.User, c.StopAt})
		if err != nil { // no worker will store it
			keys := []string{e.stockKey(c.Item), e.buyersKey(c.Item)}
			err = errors.Join(err, giveBack.Run(context.WithoutCancel(ctx), e.Redis, keys, c.User).Err())
		}
		return err
	}, nil
}

// enqueue passes an order to the workers. The task's ID prevents a second task for the same order.
func (e *Env) enqueue(ctx context.Context, queue *asynq.Client, o orderTask) error {
	payload, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = queue.EnqueueContext(ctx, asynq.NewTask(typeStore, payload),
		asynq.Queue(e.Name), asynq.TaskID(o.Item+"/"+o.User), asynq.MaxRetry(20), asynq.Timeout(time.Minute))
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil
	}
	return err
}

func (e *Env) storeTask(ctx context.Context, t *asynq.Task) error {
	var o orderTask
	if err := json.Unmarshal(t.Payload(), &o); err != nil {
		return fmt.Errorf("%w: %w", asynq.SkipRetry, err)
	}
	if tries, _ := asynq.GetRetryCount(ctx); tries > 0 {
		o.StopAt = ""
	}
	if err := e.Pay(ctx); err != nil {
		return err
	}
	return e.store(ctx, &Call{User: o.User, Item: o.Item, StopAt: o.StopAt, Stop: e.Stopper(o.User)}, Taken)
}

// enqueueForgotten enqueues orders that Redis has counted and the books lack, because a process died between the script and
// the queue. A shop calls it when it opens.
func (e *Env) enqueueForgotten(queue *asynq.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	prefix := e.buyersKey("")
	sets := e.Redis.Scan(ctx, 0, prefix+"*", 1000).Iterator()
	for sets.Next(ctx) {
		item := strings.TrimPrefix(sets.Val(), prefix)
		buyers, err := e.Redis.SMembers(ctx, sets.Val()).Result()
		if err != nil {
			return err
		}
		for _, user := range buyers {
			stored, err := e.Books.Ordered(ctx, item, user)
			if err != nil {
				return err
			}
			if stored {
				continue
			}
			if err := e.enqueue(ctx, queue, orderTask{Item: item, User: user}); err != nil {
				return err
			}
		}
	}
	return sets.Err()
}
