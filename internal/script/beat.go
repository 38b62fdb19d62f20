package script

import (
	"context"

	"github.com/lockmw/go/internal/transport"
)

// A Beat shows that a waiting process is alive. A repeated execution does no harm.
type Beat struct {
	Alive      any // the hash of live processes in the slot of the inbox: see AliveOf
	Inbox      any // a string
	Subscribed bool
}

// Call prepares one execution. done is called once, with the answer.
func (b *Beat) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	k := transport.NewCall(ctx, s.beat, 1+2, done)
	k.AddKeys(b.Alive)
	flag := "-"
	if b.Subscribed {
		flag = "+"
	}
	k.Add(b.Inbox, flag)
	return k
}

// BeatAnswer reads the answer to a Beat: whether the server had an entry of the process. If not, its tickets may be gone.
func BeatAnswer(r *transport.Reply) (known bool, err error) {
	code := r.Int()
	return code == 1, r.Err
}
