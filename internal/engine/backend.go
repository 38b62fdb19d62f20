package engine

import "github.com/lockmw/go/internal/core"

// Backend tells where the locks live.
func (e *Engine) Backend() core.Backend {
	holder := func(key string) string {
		keys := e.layout.KeySet(key)
		return keys.Holder()
	}
	return core.Backend{Redis: e.rdb, Holder: holder, Closed: e.sender.Context().Done()}
}
