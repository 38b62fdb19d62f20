package script

import (
	"context"
	"time"
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
func (a *Raise) Call(ctx context.Context, s *Set, done func(*Reply)) *Call {
	k := newCall(ctx, s.raise, 2+5, done)
	k.addKey(a.Keys.Holder())
	k.addKey(a.Keys.Fence())
	k.add(a.Token, MaxAhead.Microseconds())
	if a.Always {
		k.add(1)
	}
	if a.Hold != nil {
		k.add(a.Hold.String(), a.Shown)
	}
	return k
}

// Raised reads the answer to a Raise. behind is by how much the server's clock is behind the token if that is too much, so
// that nothing was done; else 0.
func (r *Reply) Raised(token int64) (behind time.Duration, err error) {
	if r.Err != nil {
		return 0, r.Err
	}
	if _, refused := r.single[0].(string); !refused {
		if code := r.int(); r.Err == nil && code != 1 {
			r.strange()
		}
		return 0, r.Err
	}
	now := r.int()
	if r.Err == nil && now >= token {
		r.strange()
	}
	return time.Duration(token-now) * time.Microsecond, r.Err
}
