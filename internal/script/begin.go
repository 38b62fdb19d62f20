package script

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// A Begin begins a tick of a job, if the hold may run it. A repeated execution does no harm.
type Begin struct {
	Keys  *KeySet
	ID    *ID
	Token int64 // of the hold
	Tick  core.Tick
}

// Call prepares one execution. done is called once, with the answer.
func (b *Begin) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	k := transport.NewCall(ctx, s.begin, 2+5, done)
	k.AddKeys(b.Keys.Holder(), b.Keys.Tick(b.Tick.At))
	k.Add(b.ID.String(), b.Token, b.Tick.At.UnixMilli(), b.Tick.Within.Milliseconds(), transport.RoundUp(b.Tick.Keep))
	return k
}

// A Began is the answer to a Begin.
type Began struct {
	Outcome Outcome // Done or NotHeld
	Answer  core.TickAnswer
	Now     time.Time // by the server's clock
}

// BeginAnswer reads the answer to a Begin.
func BeginAnswer(r *transport.Reply) (Began, error) {
	code, now := r.Int(), time.UnixMicro(r.Int())
	if r.Err == nil && (code < 0 || code > 4) {
		r.SetMalformed()
	}
	switch {
	case r.Err != nil:
		return Began{}, r.Err
	case code == 0:
		return Began{Outcome: NotHeld, Now: now}, nil
	}
	answer := [...]core.TickAnswer{core.TickBegun, core.TickRan, core.TickOff, core.TickFailed}[code-1]
	return Began{Outcome: Done, Answer: answer, Now: now}, nil
}
