package asynqmw

import (
	"context"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/internal/keyed"
)

// Const makes a KeyFunc whose key is always the same, that of lockmw.Key(kind, parts...): for a type of task
// that runs once at a time, whatever its payload is. It panics if the key is empty, or longer than 1024 bytes.
func Const(kind string, parts ...string) KeyFunc {
	key := keyed.Const("asynqmw", kind, parts)
	return func(context.Context, *asynq.Task) (string, error) { return key, nil }
}
