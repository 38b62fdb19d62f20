package engine

import "github.com/lockmw/go/internal/core"

// Backend implements the method by which a Locker tells where its locks live.
func (e *Engine) Backend() (core.Backend, bool) {
	holder := func(key string) string {
		keys := e.layout.KeySet(key)
		return keys.Holder()
	}
	return core.Backend{Redis: e.rdb, Holder: holder, Closed: e.sender.Context().Done()}, true
}
