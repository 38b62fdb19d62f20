package script

import (
	"context"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// A Mark notes that a tick of a job was run. A repeated or late execution does no harm.
type Mark struct {
	Keys  *KeySet
	Token int64 // of the hold that ran the tick
	Tick  core.Tick
}

// Call prepares one execution. done is called once, with the answer.
func (m *Mark) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	k := transport.NewCall(ctx, s.mark, 1+2, done)
	k.AddKeys(m.Keys.Tick(m.Tick.At))
	k.Add(m.Token, transport.RoundUp(m.Tick.Keep))
	return k
}

// MarkAnswer reads the answer to a Mark: whether a later hold has begun the tick.
func MarkAnswer(r *transport.Reply) (again bool, err error) {
	code := r.Int()
	if r.Err == nil && code != 1 && code != 2 {
		r.SetMalformed()
	}
	return code == 2, r.Err
}
