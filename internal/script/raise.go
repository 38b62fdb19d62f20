package script

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/transport"
)

// MaxAhead is how far a token may be ahead of the server's clock to be accepted. Otherwise one server whose clock was once
// years ahead would make all counters run ahead forever.
const MaxAhead = time.Minute

// A Raise makes the next token of a lock greater than a given one. A repeated execution does no harm.
type Raise struct {
	Keys   *KeySet
	Token  int64
	Hold   *ID   // the hold that must show the token Shown, if the server still has it; nil: none
	Shown  int64 // token that Hold must show
	Always bool  // write the counter even if the server's clock is ahead of the token
}

// Call prepares one execution. done is called once, with the answer.
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

// RaiseAnswer reads the answer to a Raise. behind is 0 if it was done. Otherwise the token is too far ahead, nothing was done,
// and behind is how far the server's clock is behind the token.
func RaiseAnswer(r *transport.Reply, token int64) (behind time.Duration, err error) {
	if r.Err != nil {
		return 0, r.Err
	}
	if _, refused := r.Single().(string); !refused {
		if code := r.Int(); r.Err == nil && code != 1 {
			r.SetMalformed()
		}
		return 0, r.Err
	}
	now := r.Int()
	if r.Err == nil && now >= token {
		r.SetMalformed()
	}
	return time.Duration(token-now) * time.Microsecond, r.Err
}
