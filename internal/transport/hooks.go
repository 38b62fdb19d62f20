package transport

import (
	"context"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/redis/go-redis/v9"
)

// A hookBypass takes commands for direct connections past the client that would send them, but through the hooks of the user's
// client. A client made by WithTimeout has short limits and no hooks. So such a command starts at the user's client, and a hook
// of ours, the innermost, passes it to the client with short limits. Other commands are not affected. The client of a Cluster has
// a bypass to its nodes, and the client of each node, which has hooks of its own, has another. All direct connections of a client
// share its bypass. Safe for concurrent use.
type hookBypass struct {
	toNode bool // for the client of a Cluster

	mu     sync.Mutex                 // of changes
	latest atomic.Pointer[bypassHook] // nil: no direct connection has been used yet
	added  int                        // hooks that we have added
}

// maxHooks limits the hooks that we add, which cannot be removed. It is more than a user needs who adds hooks between calls. A
// future go-redis might assemble hooks in a way that always looks as if a hook had been added.
const maxHooks = 16

// bypasses has the hookBypass of each client, by a weak pointer to the client.
var bypasses sync.Map

func bypassOf[T redis.Client | redis.ClusterClient](rdb *T) *hookBypass {
	key := weak.Make(rdb)
	_, cluster := any(rdb).(*redis.ClusterClient)
	t, found := bypasses.LoadOrStore(key, &hookBypass{toNode: cluster})
	if !found {
		runtime.AddCleanup(rdb, func(key weak.Pointer[T]) { bypasses.Delete(key) }, key)
	}
	return t.(*hookBypass)
}

// A hooked client accepts hooks, and runs commands through them.
type hooked interface {
	AddHook(h redis.Hook)
	Process(ctx context.Context, cmd redis.Cmder) error
}

// prepare adds a hook of ours if there is none yet, or if the user has since added hooks that are further in. It reports whether
// a hook of ours is the innermost.
func (t *hookBypass) prepare(rdb hooked) bool {
	if h := t.latest.Load(); h != nil && !h.overtaken.Load() {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.latest.Load()
	if h != nil && !h.overtaken.Load() {
		return true
	}
	if t.added == maxHooks {
		return false
	}
	h = &bypassHook{toNode: t.toNode}
	rdb.AddHook(h)
	t.added++
	t.latest.Store(h)
	return true
}

// A bypassHook is one hook of ours. go-redis calls its methods whenever it assembles the hooks of a client: first when this hook
// is added and is the innermost.
type bypassHook struct {
	toNode    bool
	innermost atomic.Uintptr // code of the function that the innermost hook wraps
	overtaken atomic.Bool    // another hook is further in than this one
}

// DialHook implements redis.Hook.
func (*bypassHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (*bypassHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (h *bypassHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	code := reflect.ValueOf(next).Pointer()
	if !h.innermost.CompareAndSwap(0, code) && h.innermost.Load() != code {
		h.overtaken.Store(true)
		return next
	}
	return func(ctx context.Context, cmd redis.Cmder) error {
		if _, ok := cmd.(noRetryCmd); ok {
			if l, _ := ctx.Value(directKey{}).(*directConn); l != nil {
				return l.afterHooks(h.toNode).Process(ctx, cmd)
			}
		}
		return next(ctx, cmd)
	}
}
