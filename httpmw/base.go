package httpmw

import (
	"context"
	"net/http"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/lockmw"
)

// ofRequest returns ctx without the holds that the contexts of the server and of the connection carry: requests would
// share them. net/http adds the server to the context after BaseContext, and the address after ConnContext.
func ofRequest(ctx context.Context) context.Context {
	if _, carries := lockmw.FromContext(ctx); !carries || ctx.Value(http.LocalAddrContextKey) == nil {
		return ctx
	}
	server := ctx.Value(http.ServerContextKey)
	return core.WithScope(ctx, func(taken context.Context) bool {
		return taken.Value(http.LocalAddrContextKey) != nil && taken.Value(http.ServerContextKey) == server
	})
}
