package core

import "context"

// A Scope says which of the holds that a context carries belong to the work that is done with it: those for which it
// returns true, given the context that they were taken with. If a hold is outside of a scope, so are all outer ones.
type Scope func(taken context.Context) bool

// scopeKey is the key under which a context has its Scope.
type scopeKey struct{}

// ScopeOf returns the scope of ctx, nil if it has none.
func ScopeOf(ctx context.Context) Scope {
	scope, _ := ctx.Value(scopeKey{}).(Scope)
	return scope
}

// WithScope returns a copy of ctx that carries only those holds that are in scope, and in the scope that ctx has already.
// Independent work with a shared context needs one: it would share the holds of that context.
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

// String is for the printing of contexts.
func (s *scoped) String() string { return "scoped" }
