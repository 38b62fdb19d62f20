package script

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// A Peek reads whether all is as it was for tickets, whose locks are in one slot if the server is a Cluster. It writes nothing: who
// sees something new runs a Poll.
type Peek struct {
	Tickets []PeekedTicket
}

// A PeekedTicket is one that a Peek is about.
type PeekedTicket struct {
	ID   *ID
	Keys *KeySet
	Mode core.Mode
}

// Call prepares a run. done is called once, with the answer.
func (p *Peek) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	k := transport.NewCall(ctx, s.peek, 1+3*len(p.Tickets), done)
	k.AddKeys(p.Tickets[0].Keys.six[fenceKey])
	for i := range p.Tickets {
		t := &p.Tickets[i]
		k.AddKeys(t.Keys.six[holderKey], t.queue())
	}
	for i := range p.Tickets {
		k.Add(p.Tickets[i].ID.String())
	}
	return k
}

// queue is where the ticket stands.
func (t *PeekedTicket) queue() any {
	switch t.Mode {
	case core.Read:
		return t.Keys.six[readQueueKey]
	case core.Permit:
		return t.Keys.PermitQueue()
	}
	return t.Keys.six[queueKey]
}

// A Peeked is the answer to a Peek.
type Peeked struct {
	Stamp   int64         // the fencing counter
	Tickets []PeekedState // in the order of the Peek
}

// A PeekedState is how things are for one ticket.
type PeekedState struct {
	Position int           // in its queue; 0: it has none, or a Poll can tell more
	TTL      time.Duration // how long the lock stays taken if nobody does anything; of readers and permits, the first one; 0: it does not
	Token    int64         // the holder's; 0: it has none, or there are several
	Lingers  bool          // the hold has ended, and its minimum hold keeps the key taken
	Reads    bool          // readers hold the lock
	Granted  bool          // the ticket was granted the lock, which only it has
}

// PeekAnswer reads the answer to a Peek about n tickets.
func PeekAnswer(r *transport.Reply, n int) (p Peeked, err error) {
	p.Stamp = r.Int()
	if r.Err == nil && r.Left() != 4*n {
		r.Strange()
	}
	if r.Err != nil {
		return p, r.Err
	}
	p.Tickets = make([]PeekedState, n)
	for i := range p.Tickets {
		t := &p.Tickets[i]
		t.Position, t.TTL, t.Token = int(r.Int()), r.TTL(), r.Int()
		state := r.Int()
		t.Lingers, t.Reads, t.Granted = state == 1, state == 2, state == 3
	}
	return p, r.Err
}
