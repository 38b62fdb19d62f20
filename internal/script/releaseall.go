package script

import (
	"context"

	"github.com/lockmw/go/internal/transport"
)

// A ReleaseAll ends several holds in one run of release_batch.lua. What is not plain there is left to a Release, as in a
// batch. It is harmless when repeated.
type ReleaseAll struct {
	Locks []IDOf // on one server, or in one slot of a Cluster; core.MaxTogether at most
}

// Call prepares a run. done is called once, with the answer.
func (l *ReleaseAll) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	n := len(l.Locks)
	k := transport.NewCall(ctx, s.releases.Script, 3*n, done)
	for _, one := range l.Locks {
		k.AddKeys(one.Keys.six[holderKey], one.Keys.six[queueKey])
	}
	copies := make(counters, n)
	for i, one := range l.Locks {
		k.Add((*releaseID)(one.ID))
		copies[i] = &one.ID.releases
	}
	k.Copies = copies
	return k
}

// Answers reads the answer: for each hold what a Release of it would have been answered, or nil if it is left to one.
func (l *ReleaseAll) Answers(r *transport.Reply) []*transport.Reply {
	answers := make([]*transport.Reply, len(l.Locks))
	for i, one := range l.Locks {
		code := r.Int()
		if r.Err == nil && code == transport.NotPlain {
			one.ID.releases.Add(-1) // the run did nothing for it
			continue
		}
		answers[i] = transport.NewReply(code, r.Err, r.Sent)
	}
	return answers
}
