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

// A turnout leads the commands of lanes off to the clients of these, behind the hooks of the user's client: a
// client made by WithTimeout has no hooks. So such a command runs through the user's client, where a hook of
// ours, the innermost, hands it over. Other commands pass by. The client of a Cluster has a turnout to its nodes, and
// the client of each node, which has hooks of its own, another one. All lanes of a client share its turnout. Safe for
// concurrent use.
type hookBypass struct {
	toNode bool // of the client of a Cluster

	mu     sync.Mutex                 // of changes
	latest atomic.Pointer[bypassHook] // nil: no lane has run yet
	added  int                        // hooks of ours
}

// maxHooks is more hooks of ours than a user makes necessary, who adds hooks of his own between calls. They cannot
// be removed. If another go-redis puts hooks together in a way that looks like that for ever, there are no more.
const maxHooks = 16

// bypasses has the turnout of each client, by a weak pointer to it.
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

// A hooked client takes hooks, and runs commands through them.
type hooked interface {
	AddHook(h redis.Hook)
	Process(ctx context.Context, cmd redis.Cmder) error
}

// prepare adds a hook of ours if there is none yet, or the user has added others since, which are behind it. It
// reports whether a hook of ours is the innermost.
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

// A bypassHook is one hook of ours. go-redis calls its methods whenever it puts the hooks of a client together:
// first when this one is added and is the innermost.
type bypassHook struct {
	toNode    bool
	innermost atomic.Uintptr // code of the function that the innermost hook wraps
	overtaken atomic.Bool    // another hook is behind this one
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
		if _, ok := cmd.(once); ok {
			if l, _ := ctx.Value(directKey{}).(*directConn); l != nil {
				return l.afterHooks(h.toNode).Process(ctx, cmd)
			}
		}
		return next(ctx, cmd)
	}
}
