package rw

import (
	"errors"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

var readWriteTries = []env.Scenario{
	env.Case("a busy TryLock names the holders", tryNamesHolders, env.TwoSided|env.Shares|env.Sample),
}

func tryNamesHolders(e *env.Env) {
	clients, key := e.Clients(3), e.Key("item")
	holds := []*recording.Held{read(e, clients[0], key), read(e, clients[1], key)}
	names(e, clients[2].RW, key, holds...)
	w := e.Wait(clients[2].RW, key)
	names(e, clients[2].Reader(), key, holds...)
	release(e, holds...)
	_, writer := w.Gets(e.Soon)
	for _, l := range []lockmw.Locker{clients[0].Reader(), clients[0].RW} {
		names(e, l, key, writer)
	}
	release(e, writer)
}

// names checks that TryLock fails with the holders' tokens in its error.
func names(e *env.Env, l lockmw.Locker, key string, holds ...*recording.Held) {
	e.T.Helper()
	_, _, err := e.Rec.Lock(e.Ctx, l, key, lockmw.WithWait(0))
	failure, ok := errors.AsType[*lockmw.Error](err)
	if !ok {
		e.T.Errorf("TryLock: %v", err)
		return
	}
	if len(failure.Holders) != len(holds) {
		e.T.Errorf("want %d holders in the error, got %+v", len(holds), failure.Holders)
		return
	}
	for _, h := range failure.Holders {
		if h.Token != holds[0].Token() || h.Process == "" || h.Owner == "" {
			e.T.Errorf("the error names %+v, want the holder of token %d", h, holds[0].Token())
		}
	}
}
