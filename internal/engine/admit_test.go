package engine

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// One execution of a script admits a limited number of readers. The process immediately runs it again, so the other readers need
// not wait for a poll.
func TestRemainingReadersAreAdmittedImmediately(t *testing.T) {
	all := scripttest.IDs("r", 2*script.MaxAdmitted+9)
	for name, free := range map[string]func(b *bubble){
		"by a release": func(b *bubble) {
			h := b.requester(core.Write).acquire(b.T, b.e)
			b.driver.Queue(false, all...)
			b.release(h)
		},
		"by a downgrade": func(b *bubble) {
			h := b.requester(core.Write).acquire(b.T, b.e)
			b.driver.Queue(false, all...)
			if err := h.Downgrade(b.Context()); err != nil {
				b.Error(err)
			}
			b.release(h)
		},
		"by one that gives up": func(b *bubble) {
			b.driver.Acquire(scripttest.Acquire{ID: "w", Mode: core.Read})
			writer := b.call(b.e, b.requester(core.Write))
			b.wantWaiting("a writer", writer)
			b.driver.Queue(false, all...)
			writer.stop()
			<-writer.done
			b.driver.Release("w")
		},
		"by a poll": func(b *bubble) {
			b.driver.Acquire(scripttest.Acquire{ID: "w", Mode: core.Write})
			reader := b.call(b.e, b.requester(core.Read))
			b.wantWaiting("a reader", reader)
			b.driver.Queue(false, all...)
			b.rdb.Del(b.Context(), b.driver.Keys.Holder()) // its lease ran out
			time.Sleep(script.PollInterval)
			b.release(b.wantGranted("a reader", reader))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warm()
				free(b)
				if n := len(b.readers()); n != len(all) {
					b.Errorf("%d of %d are admitted", n, len(all))
				}
			})
		})
	}
}
