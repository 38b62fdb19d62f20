package plain

import (
	"strings"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var labels = []env.Scenario{
	env.Case("callers of a busy lock see its label", labelOfHolder, env.Shares|env.Sample),
	env.Case("operators see the label", labelInspected, env.Shares|env.OnServer|env.OneNode),
	env.Case("each call has its own label", labelsOfCalls, env.Shares),
}

func labelOfHolder(e *env.Env) {
	c, key := e.Client(), e.Key("task")
	const label = "web-1/aB3;label=x-000042"
	ctx, held := e.Lock(c, key, lockmw.WithLabel(label), lockmw.WithFixedLease(20*time.Second))
	for what, of := range map[string]*env.Client{"held here": c, "held elsewhere": e.Client()} {
		failure := tried(e, of, key)
		if h := failure.Holders[0]; h.Label != label || !h.Fixed || strings.Contains(h.Owner, ";") {
			e.T.Errorf("%s: the holder is %+v", what, h)
		}
		if !strings.Contains(failure.Error(), "held by "+label) {
			e.T.Errorf("%s: the error is %v", what, failure)
		}
	}
	e.Unlock(ctx, held)
	e.Free(c, key)
}

func labelInspected(e *env.Env) {
	c, key := e.Client(), e.Key("task")
	ctx, held := e.Lock(c, key, lockmw.WithLabel("first"))
	w := e.Wait(e.Client(), key, lockmw.WithLabel("second"))
	status := e.Server.Status(key)
	if len(status.Holders) != 1 || status.Holders[0].Label != "first" || len(status.Waiters) != 1 || status.Waiters[0].Label != "second" {
		e.T.Errorf("the status is %+v", status)
	}
	e.Unlock(ctx, held)
	ctx, held = w.Gets(e.Soon)
	if h := e.Server.Status(key).Holders; len(h) != 1 || h[0].Label != "second" {
		e.T.Errorf("after the grant the holders are %+v", h)
	}
	e.Unlock(ctx, held)
}

func labelsOfCalls(e *env.Env) {
	c, key := e.Client(), e.Key("task")
	for _, label := range []string{"first", "", "second"} {
		ctx, held := e.Lock(c, key, lockmw.WithLabel(label))
		if h := tried(e, e.Client(), key).Holders[0]; h.Label != label {
			e.T.Errorf("the holder is %+v, want label %q", h, label)
		}
		e.Unlock(ctx, held)
	}
}
