package lockmw

import (
	"context"

	"github.com/lockmw/go/internal/core"
)

// WithoutHolds returns a copy of ctx that carries none of its holds. It is for independent pieces of work that start from a
// shared context, such as the requests of a server: with the shared context itself all of them would share its holds and run at
// the same time. A Lock with the copy does not re-enter the holds, and Held does not find them. The copy still ends with them.
// Holds that are taken with the copy, or with a context derived from it, are carried as usual. httpmw and asynqmw call
// WithoutHolds themselves. Safe for concurrent use.
func WithoutHolds(ctx context.Context) context.Context {
	if _, carries := FromContext(ctx); !carries {
		return ctx
	}
	start := new(struct{ _ byte })
	ctx = context.WithValue(ctx, start, true)
	return core.WithScope(ctx, func(taken context.Context) bool { return taken.Value(start) != nil })
}

// within returns h if it is in scope, otherwise nil. h may be nil.
func (h *Hold) within(scope core.Scope) *Hold {
	if h == nil || scope != nil && !scope(h.ctx.parent) {
		return nil
	}
	return h
}

// outerIn returns the next outer hold of h that ctx carries, or nil if there is none.
func (h *Hold) outerIn(ctx context.Context) *Hold {
	if h.outer == nil {
		return nil
	}
	return h.outer.within(core.ScopeOf(ctx))
}
