package script

import (
	"context"
	_ "embed"

	"github.com/lockmw/go/internal/deadlock"
)

//go:embed look.lua
var lookLua string

// A Look reads who holds a lock and who waits for it, to find deadlocks.
type Look struct {
	Keys *KeySet
}

// Call prepares a run. done is called once, with the answer.
func (l *Look) Call(ctx context.Context, s *Set, done func(*Reply)) *Call {
	k := newCall(ctx, s.look, 5+1, done)
	k.addKeys(l.Keys.five)
	k.add(deadlock.MaxHolders)
	return k
}

// Looked reads the answer to a Look.
func (r *Reply) Looked() (*deadlock.View, error) {
	v := &deadlock.View{Partial: r.int() == 1, Admits: r.int() == 1}
	reads := r.int() == 1
	for _, h := range r.pairs() {
		v.Holders = append(v.Holders, deadlock.Holder{Lease: h[0], Inbox: h[1], Reads: reads})
	}
	for _, t := range r.pairs() {
		v.Tickets = append(v.Tickets, deadlock.Ticket{ID: t[0], Inbox: t[1]})
	}
	return v, r.Err
}

// pairs reads a list of ids with their inboxes.
func (r *Reply) pairs() (pairs [][2]string) {
	values, ok := r.next().([]any)
	if !ok {
		r.strange()
	}
	list := &Reply{values: values}
	for len(list.values) > 0 && list.Err == nil {
		pairs = append(pairs, [2]string{list.text(), list.text()})
	}
	if list.Err != nil {
		r.strange()
	}
	return pairs
}
