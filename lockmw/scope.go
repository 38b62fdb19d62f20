package lockmw

import (
	"context"

	"github.com/lockmw/go/internal/core"
)

// WithoutHolds returns a copy of ctx that carries none of its holds. A Lock with it does not re-enter them, and Held does
// not find them; the context still ends with them. Holds that are taken with it or with a context made of it count as
// usual. It is for independent pieces of work that start from a shared context, such as the requests of a server: with
// that context itself all of them would share its holds, and run at the same time. httpmw and asynqmw do it by themselves.
// Safe for concurrent use.
func WithoutHolds(ctx context.Context) context.Context {
	if _, carries := FromContext(ctx); !carries {
		return ctx
	}
	start := new(struct{ _ byte })
	ctx = context.WithValue(ctx, start, true)
	return core.WithScope(ctx, func(taken context.Context) bool { return taken.Value(start) != nil })
}

// within returns h, which may be nil, if it is in scope, else nil.
func (h *Hold) within(scope core.Scope) *Hold {
	if h == nil || scope != nil && !scope(h.ctx.parent) {
		return nil
	}
	return h
}

// outerIn returns the next outer hold of h that ctx carries, nil if there is none.
func (h *Hold) outerIn(ctx context.Context) *Hold {
	if h.outer == nil {
		return nil
	}
	return h.outer.within(core.ScopeOf(ctx))
}
