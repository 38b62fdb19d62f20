package script

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// A Poll keeps the queue of a key alive, and asks for the state of tickets. Without tickets it only grants a lock that has
// become free.
type Poll struct {
	Keys    *KeySet
	Tickets []PolledTicket
	Permits bool // of a semaphore
}

// A PolledTicket is a ticket of a Poll.
type PolledTicket struct {
	ID    *ID
	Lease time.Duration // of the hold, if the ticket was granted the lock
	Calls int           // calls of the process that share the ticket; 0 counts as 1
}

// Call prepares one execution. done is called once, with the answer.
func (p *Poll) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	k := callOf(ctx, s.of(p.Permits).poll, p.Keys, p.Permits, 3*len(p.Tickets), done)
	for _, t := range p.Tickets {
		k.Add(t.ID.String(), t.Lease.Milliseconds(), max(t.Calls, 1))
	}
	return k
}

// A Polled is the answer to a Poll.
type Polled struct {
	// More says that a poll must follow immediately, because one execution could not do everything. It is set even if the rest
	// of the answer is unreadable.
	More    bool
	Stamp   int64          // the fencing counter
	Wait    core.Wait      // the holders; without a position
	Next    time.Duration  // of a semaphore: until the first permit may end
	Tickets []TicketAnswer // in the order of the Poll
}

// A TicketAnswer is the state of one ticket.
type TicketAnswer struct {
	Outcome  Outcome // Held, Queued or Over
	Grant    Grant
	Position int // in the queue; 0: unknown
	Err      error
}

// PollAnswer reads the answer to a Poll for n tickets.
func PollAnswer(r *transport.Reply, n int, inboxPrefix string) (p Polled, err error) {
	code := r.Int()
	p.More = code&1 == 1
	p.Stamp = r.Int()
	p.Wait.Queued = int(r.Int())
	list := r.List()
	if code >= 2 {
		p.Wait.Holders, p.Next = readPermitHolders(r, inboxPrefix)
	} else {
		p.Wait.Holders = readHolders(r, inboxPrefix)
	}
	if r.Err == nil && len(list) != n {
		r.SetMalformed()
	}
	if r.Err != nil {
		return p, r.Err
	}
	p.Tickets = make([]TicketAnswer, n)
	for i, one := range list {
		p.Tickets[i] = readTicket(one)
	}
	return p, nil
}

func readTicket(r *transport.Reply) (t TicketAnswer) {
	switch code := r.Int(); {
	case r.Err != nil:
	case code == 1:
		t.Outcome, t.Grant = Held, readGrant(r)
	case code == 3:
		t.Outcome, t.Grant = Held, readPermit(r)
	case code == 0:
		return TicketAnswer{Outcome: Queued, Position: int(r.Int())} // it is queued even if its position is unreadable
	default:
		t.Outcome = Over
	}
	t.Err = r.Err
	return t
}
