package script

import (
	"context"
	"strconv"

	"github.com/lockmw/go/internal/deadlock"
	"github.com/lockmw/go/internal/transport"
)

// A Look reads the holders of a lock and the tickets that wait for it, to find deadlocks.
type Look struct {
	Keys *KeySet
}

// Call prepares one execution. done is called once, with the answer.
func (l *Look) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	k := transport.NewCall(ctx, s.look, 8+1, done)
	k.AddKeys(l.Keys.six[:]...)
	k.AddKeys(l.Keys.PermitQueue(), l.Keys.PermitTickets())
	k.Add(deadlock.MaxHolders)
	return k
}

// LookAnswer reads the answer to a Look.
func LookAnswer(r *transport.Reply) (*deadlock.View, error) {
	v := &deadlock.View{Partial: r.Int() == 1, Admits: r.Int() == 1}
	reads := r.Int() == 1
	r.Each(func(l *transport.Reply) {
		v.Holders = append(v.Holders, deadlock.Holder{Lease: l.Text(), Inbox: l.Text(), Weight: readNumber(l), Reads: reads})
	})
	r.Each(func(l *transport.Reply) {
		v.Tickets = append(v.Tickets, deadlock.Ticket{ID: l.Text(), Inbox: l.Text(), Weight: readNumber(l), Permits: readNumber(l)})
	})
	return v, r.Err
}

// readNumber reads a number that the script returned as text.
func readNumber(r *transport.Reply) int {
	n, err := strconv.Atoi(r.Text())
	if err != nil {
		r.SetMalformed()
	}
	return n
}
