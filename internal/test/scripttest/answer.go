package scripttest

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/script"
)

// A lastAnswer records the server's last answer to a script. It is a hook of a client.
type lastAnswer struct {
	mu    sync.Mutex
	value any
}

func (a *lastAnswer) get() any {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.value
}

// DialHook implements redis.Hook.
func (a *lastAnswer) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (a *lastAnswer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if slices.Contains([]string{"eval", "evalsha"}, cmd.Name()) {
			a.mu.Lock()
			a.value = cmd.(interface{ Val() any }).Val()
			a.mu.Unlock()
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (a *lastAnswer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// isWhole reports whether an answer contains only what the reader of op reads. Data about the holders is read to its end.
func isWhole(op Operation, answer any) bool {
	list, isList := answer.([]any)
	switch op := op.(type) {
	case *script.Acquire:
		if op.Record != nil && isList && len(list) > 0 && list[0] == any(int64(6)) {
			return len(list) == 6
		}
		if op.Vote != nil && len(list) == 5 && list[0] == any(int64(1)) {
			list = list[:4] // and the time
		}
		return !isList || isWholeTicket(list)
	case *script.AcquireAll:
		n := len(op.Locks)
		return !isList || len(list) == 1+n
	case *script.ReleaseAll:
		return len(list) == len(op.Locks)
	case *script.RecordBegin:
		return len(list) == 1 || len(list) == 2
	case *script.Release:
		return isList == (op.Record != nil) && (!isList || len(list) == 2)
	case *script.Begin:
		return len(list) == 2
	case *script.Peek:
		return len(list) == 1+4*len(op.Tickets)
	case *script.Look:
		return len(list) == 5
	case *script.Status:
		return len(list) == 14
	case *script.Poll:
		if len(list) < 4 {
			return false
		}
		tickets, _ := list[3].([]any)
		return !slices.ContainsFunc(tickets, func(t any) bool {
			fields, isTicket := t.([]any)
			return !isTicket || len(fields) > 2 && fields[0] == any(int64(0)) || !isWholeTicket(fields)
		})
	}
	return !isList
}

// isWholeTicket reports whether fields are the whole answer about one id.
func isWholeTicket(fields []any) bool {
	if len(fields) == 0 {
		return false
	}
	switch fields[0] {
	case any(int64(0)), any(int64(4)):
		return true
	case any(int64(1)), any(int64(3)):
		return len(fields) == 4
	}
	return len(fields) == 1
}
