package script

import (
	"context"

	"github.com/lockmw/go/internal/transport"
)

// A ReleaseAll ends several holds by one execution of release_batch.lua. Holds that this script does not end need a Release
// each. A repeated execution does no harm.
type ReleaseAll struct {
	Locks []LockID // on one server, or in one slot of a Cluster; at most core.MaxTogether
}

// Call prepares one execution. done is called once, with the answer.
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

// Answers returns for each hold the answer that its own Release would have got, or nil if it needs a Release.
func (l *ReleaseAll) Answers(r *transport.Reply) []*transport.Reply {
	answers := make([]*transport.Reply, len(l.Locks))
	for i, one := range l.Locks {
		code := r.Int()
		if r.Err == nil && code == transport.NotPlain {
			one.ID.releases.Add(-1) // the script did nothing for it
			continue
		}
		answers[i] = transport.NewReply(code, r.Err, r.Sent)
	}
	return answers
}
