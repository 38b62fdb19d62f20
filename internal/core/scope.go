package core

import "context"

// A Scope selects the holds of a context that belong to the work done with that context: the holds for which it returns true,
// given the context with which they were taken. If a hold is outside of a scope, so are all holds outside of it.
type Scope func(taken context.Context) bool

// scopeKey is the context key of a Scope.
type scopeKey struct{}

// ScopeOf returns the scope of ctx, or nil if it has none.
func ScopeOf(ctx context.Context) Scope {
	scope, _ := ctx.Value(scopeKey{}).(Scope)
	return scope
}

// WithScope returns a copy of ctx that carries only the holds in scope, and in the present scope of ctx. Independent work with a
// shared context needs a scope of its own, because it would otherwise share the holds of that context.
func WithScope(ctx context.Context, scope Scope) context.Context {
	inner := scope
	if outer := ScopeOf(ctx); outer != nil {
		inner = func(taken context.Context) bool { return outer(taken) && scope(taken) }
	}
	return &scoped{ctx, inner}
}

type scoped struct {
	context.Context
	scope Scope
}

func (s *scoped) Value(key any) any {
	if key == (scopeKey{}) {
		return s.scope
	}
	v := s.Context.Value(key)
	if chain, ok := v.(Chain); ok {
		return chain.Within(s.scope)
	}
	return v
}

// String names the type when a context is printed.
func (s *scoped) String() string { return "scoped" }
