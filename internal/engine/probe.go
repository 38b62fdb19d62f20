package engine

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/transport"
)

// probe looks in the background what kind of server this is.
func (e *Engine) probe() {
	e.inboxes.Go(func() {
		ctx, cancel := context.WithTimeout(e.sender.Context(), 5*time.Second)
		defer cancel()
		policy, err := transport.EvictionPolicy(ctx, e.rdb)
		if err == nil && policy != "" && policy != "noeviction" {
			e.cfg.Logger.Warn("lockmw: the server evicts keys when its memory is full, and locks with them; set maxmemory-policy to noeviction",
				"maxmemory-policy", policy)
		}
		e.sender.SetBatching(transport.IsOneServer(ctx, e.rdb, e.cfg.Prefix))
	})
}
