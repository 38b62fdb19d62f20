package asynqmw

import (
	"context"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/internal/keyed"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// A KeyFunc returns the key of the lock that a task needs. Any function with this signature will do; By builds one from parts. The
// same key means the same lock everywhere, including requests and plain functions.
//
// If it returns lockmw.ErrNoLock, the task is processed without a lock. An empty key and an error that wraps asynq.SkipRetry or
// lockmw.ErrInvalidKey archive the task. Any other error fails the attempt, which spends a retry.
type KeyFunc func(context.Context, *asynq.Task) (string, error)

// A Part returns one part of a key, such as an ID. It is not a KeyFunc, because an ID alone does not name the kind of thing. By
// adds the kind.
type Part func(context.Context, *asynq.Task) (string, error)

// By builds a KeyFunc from the kind of thing and the parts that identify it:
//
//	asynqmw.By("item", asynqmw.Payload(func(o Order) string { return o.Item })) // item:7
//
// The key has the format of lockmw.Key: parts are escaped, so that different parts never make the same key. An empty part
// archives the task; it never means one lock for all tasks. The error of a part fails the attempt or archives the task: see
// KeyFunc. By panics if kind is empty or too long for any key to fit into 1024 bytes, if there is no part, or if a part is nil.
func By(kind string, parts ...Part) KeyFunc {
	pattern := keyed.NewPattern("asynqmw", "tasks", kind, parts)
	return func(ctx context.Context, task *asynq.Task) (string, error) {
		return pattern.Key(func(part Part) (string, error) { return part(ctx, task) })
	}
}

// Payload uses a field of the task's payload as a part of the key. The payload must be the JSON of a T. If it is not, or is null
// or not UTF-8, the task is archived: the error wraps asynq.SkipRetry and lockmw.ErrInvalidKey. Payload panics if field is nil.
func Payload[T any](field func(T) string) Part {
	option.NotNil(field, "asynqmw: Payload: the function is nil")
	return func(_ context.Context, task *asynq.Task) (string, error) {
		payload, err := decode[T](task)
		if err != nil {
			return "", err
		}
		return field(payload), nil
	}
}

// decode returns the payload of a task that must be the JSON of a T. The error archives the task.
func decode[T any](task *asynq.Task) (payload T, err error) {
	payload, err = keyed.Decode[T]("payload", task.Payload())
	if err != nil {
		err = fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	return payload, err
}

// Header uses a header of the task as a part of the key. The name must match exactly. A task whose header is missing or empty is
// archived. Header panics if name is empty.
func Header(name string) Part {
	if name == "" {
		panic("asynqmw: Header: the name is empty")
	}
	return func(_ context.Context, task *asynq.Task) (string, error) {
		value, ok := task.Headers()[name]
		switch {
		case !ok:
			return "", fmt.Errorf("%w: the task has no header %s", lockmw.ErrInvalidKey, name)
		case value == "":
			return "", fmt.Errorf("%w: the task's header %s is empty", lockmw.ErrInvalidKey, name)
		}
		return value, nil
	}
}

// Const builds a KeyFunc for a type of task that runs one at a time, whatever its payload. The key is always
// lockmw.Key(kind, parts...). Const panics if the key is empty or longer than 1024 bytes.
func Const(kind string, parts ...string) KeyFunc {
	key := keyed.Const("asynqmw", kind, parts)
	return func(context.Context, *asynq.Task) (string, error) { return key, nil }
}
