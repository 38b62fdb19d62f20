package script

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// A Peek reads whether anything has changed for tickets. In a Cluster their locks must be in one slot. It writes nothing; if
// something has changed, a Poll must follow.
type Peek struct {
	Tickets []PeekedTicket
}

// A PeekedTicket is a ticket of a Peek.
type PeekedTicket struct {
	ID   *ID
	Keys *KeySet
	Mode core.Mode
}

// Call prepares one execution. done is called once, with the answer.
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

// queue returns the key of the ticket's queue.
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

// A PeekedState is the state of one ticket.
type PeekedState struct {
	Position int // in its queue; 0: it has none, or a Poll can tell more
	// TTL is how long the lock stays taken without another command; for readers and permits, until the first of them ends.
	// 0: it is free.
	TTL     time.Duration
	Token   int64 // the holder's; 0: there is none, or there are several
	Lingers bool  // the hold has ended, and its minimum hold keeps the key taken
	Reads   bool  // readers hold the lock
	Granted bool  // the ticket was granted the lock and holds it alone
}

// PeekAnswer reads the answer to a Peek for n tickets.
func PeekAnswer(r *transport.Reply, n int) (p Peeked, err error) {
	p.Stamp = r.Int()
	if r.Err == nil && r.Left() != 4*n {
		r.SetMalformed()
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
