package script

import (
	"context"
	"strconv"

	"github.com/lockmw/go/internal/deadlock"
)

// A Look reads who holds a lock and who waits for it, to find deadlocks.
type Look struct {
	Keys *KeySet
}

// Call prepares a run. done is called once, with the answer.
func (l *Look) Call(ctx context.Context, s *Set, done func(*Reply)) *Call {
	k := newCall(ctx, s.look, 7+1, done)
	k.addKeys(l.Keys.five)
	k.addKey(l.Keys.PermitQueue())
	k.addKey(l.Keys.PermitTickets())
	k.add(deadlock.MaxHolders)
	return k
}

// Looked reads the answer to a Look.
func (r *Reply) Looked() (*deadlock.View, error) {
	v := &deadlock.View{Partial: r.int() == 1, Admits: r.int() == 1}
	reads := r.int() == 1
	r.each(func(l *Reply) {
		v.Holders = append(v.Holders, deadlock.Holder{Lease: l.text(), Inbox: l.text(), Weight: l.number(), Reads: reads})
	})
	r.each(func(l *Reply) {
		v.Tickets = append(v.Tickets, deadlock.Ticket{ID: l.text(), Inbox: l.text(), Weight: l.number(), Of: l.number()})
	})
	return v, r.Err
}

// each has read read the elements of a list.
func (r *Reply) each(read func(list *Reply)) {
	values, ok := r.next().([]any)
	if !ok {
		r.strange()
	}
	list := &Reply{values: values}
	for len(list.values) > 0 && list.Err == nil {
		read(list)
	}
	if list.Err != nil {
		r.strange()
	}
}

// number reads a number that is written as text.
func (r *Reply) number() int {
	n, err := strconv.Atoi(r.text())
	if err != nil {
		r.strange()
	}
	return n
}
