package script

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/transport"
)

// MaxAhead is how far a token may be ahead of the server's clock to be believed: one server whose clock was years ahead
// must not make all counters run ahead for ever.
const MaxAhead = time.Minute

// A Raise makes the next token of a lock greater than one that was seen. It is harmless when repeated.
type Raise struct {
	Keys   *KeySet
	Token  int64
	Hold   *ID   // that is to have ShownToken, if the server still has it; nil: none
	Shown  int64 // the token of that hold
	Always bool  // the counter is to have the token though the server's clock may be ahead of it
}

// Call prepares a run. done is called once, with the answer.
func (a *Raise) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	k := transport.NewCall(ctx, s.raise, 2+5, done)
	k.AddKeys(a.Keys.Holder(), a.Keys.Fence())
	k.Add(a.Token, MaxAhead.Microseconds())
	if a.Always {
		k.Add(1)
	}
	if a.Hold != nil {
		k.Add(a.Hold.String(), a.Shown)
	}
	return k
}

// RaiseAnswer reads the answer to a Raise. behind is by how much the server's clock is behind the token if that is too much, so
// that nothing was done; else 0.
func RaiseAnswer(r *transport.Reply, token int64) (behind time.Duration, err error) {
	if r.Err != nil {
		return 0, r.Err
	}
	if _, refused := r.Single().(string); !refused {
		if code := r.Int(); r.Err == nil && code != 1 {
			r.Strange()
		}
		return 0, r.Err
	}
	now := r.Int()
	if r.Err == nil && now >= token {
		r.Strange()
	}
	return time.Duration(token-now) * time.Microsecond, r.Err
}
