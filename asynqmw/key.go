package asynqmw

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/internal/keyed"
	"github.com/lockmw/go/lockmw"
)

// A KeyFunc says which lock a task needs. It may be any function of this shape; By makes one of
// parts. If it returns lockmw.ErrNoLock the task is processed without a lock. An error that wraps
// asynq.SkipRetry or lockmw.ErrInvalidKey, and an empty key, archive the task; any other error fails
// the attempt.
//
// The same key means the same lock everywhere, in requests and plain functions too.
type KeyFunc func(context.Context, *asynq.Task) (string, error)

// A Part is a piece of a key, such as an ID. It is not a KeyFunc, because an ID does not say what it
// is the ID of: By does.
type Part func(context.Context, *asynq.Task) (string, error)

// By makes a KeyFunc from the kind of thing and the parts that identify it:
//
//	asynqmw.By("item", asynqmw.Payload(func(o Order) string { return o.Item })) // item:7
//
// The key is that of lockmw.Key: parts are escaped, so that different parts never make the same key.
// An empty part archives the task; it never means one lock shared by all. A part that fails fails the
// attempt, or archives the task: see KeyFunc. By panics if kind is empty, or so long
// that no key fits, and if there is no part or a nil one.
func By(kind string, parts ...Part) KeyFunc {
	pattern := keyed.NewPattern("asynqmw", "tasks", kind, parts)
	return func(ctx context.Context, task *asynq.Task) (string, error) {
		return pattern.Key(func(part Part) (string, error) { return part(ctx, task) })
	}
}

// Payload is a field of the task's payload, which is JSON of a T. If the payload is anything else, is null
// or is not UTF-8, the task is archived: the error wraps asynq.SkipRetry. Payload panics if field is
// nil.
func Payload[T any](field func(T) string) Part {
	if field == nil {
		panic("asynqmw: Payload: the function is nil")
	}
	return func(_ context.Context, task *asynq.Task) (string, error) {
		var payload T
		if !utf8.Valid(task.Payload()) { // package json replaces what is not: two payloads could make one key
			return "", fmt.Errorf("%w: the payload is not UTF-8: %w", lockmw.ErrInvalidKey, asynq.SkipRetry)
		}
		if err := json.Unmarshal(task.Payload(), &payload); err != nil {
			if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
				wrong.Value, _, _ = strings.Cut(wrong.Value, " ") // without the digits of a number, which may be many
			}
			return "", fmt.Errorf("payload is not JSON of %T: %w: %w", payload, err, asynq.SkipRetry)
		}
		if string(bytes.TrimSpace(task.Payload())) == "null" {
			return "", fmt.Errorf("%w: the payload is null: %w", lockmw.ErrInvalidKey, asynq.SkipRetry)
		}
		return field(payload), nil
	}
}

// Header is a header of the task, by its exact name. A task without it, or with an empty one, has no
// valid key and is archived. Header panics if name is empty.
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

// Const makes a KeyFunc whose key is always the same, that of lockmw.Key(kind, parts...): for a type of task
// that runs once at a time, whatever its payload is. It panics if the key is empty, or longer than 1024 bytes.
func Const(kind string, parts ...string) KeyFunc {
	key := keyed.Const("asynqmw", kind, parts)
	return func(context.Context, *asynq.Task) (string, error) { return key, nil }
}
