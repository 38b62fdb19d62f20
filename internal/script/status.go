package script

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"
)

// A Status reads what is stored of one lock, in one run.
type Status struct {
	Keys *KeySet
	Kept []string // names of kept places to look at
}

// Call prepares a run. done is called once, with the answer.
func (s *Status) Call(ctx context.Context, set *Set, done func(*Reply)) *Call {
	k := newCall(ctx, set.status, 7+len(s.Kept), done)
	k.addKeys(s.Keys.five)
	k.addKey(s.Keys.PermitQueue())
	k.addKey(s.Keys.PermitTickets())
	for _, name := range s.Kept {
		k.addKey(s.Keys.Kept(name))
	}
	return k
}

// Stored is what a Status has read.
type Stored struct {
	Now     time.Time         // by the server's clock
	TTL     time.Duration     // of the holder
	Holder  map[string]string // the fields of the holder's hash
	Tickets []string          // in the order of their places, of all queues
	Noted   map[string]string // what is noted of tickets
	Kept    []StoredPlace     // as they were asked for
}

// A StoredPlace is a kept place. At is "" if there is none.
type StoredPlace struct {
	At  string
	TTL time.Duration
}

// Stored reads the answer to a Status.
func (r *Reply) Stored() (*Stored, error) {
	s := &Stored{Now: time.Unix(r.int(), r.int()*1000), TTL: r.ttl(), Holder: r.pairs()}
	type ticket struct {
		id    string
		place float64
	}
	var all []ticket
	for range 3 {
		r.each(func(queue *Reply) {
			t := ticket{id: queue.text()}
			var err error
			if t.place, err = strconv.ParseFloat(queue.text(), 64); err != nil {
				queue.strange()
			}
			all = append(all, t)
		})
	}
	slices.SortStableFunc(all, func(a, b ticket) int { return cmp.Compare(a.place, b.place) })
	for _, t := range all {
		s.Tickets = append(s.Tickets, t.id)
	}
	s.Noted = r.pairs()
	maps.Copy(s.Noted, r.pairs())
	r.each(func(kept *Reply) { s.Kept = append(s.Kept, StoredPlace{At: kept.text(), TTL: kept.ttl()}) })
	return s, r.Err
}

// pairs reads a list of fields and values.
func (r *Reply) pairs() map[string]string {
	values := make(map[string]string)
	r.each(func(list *Reply) { field := list.text(); values[field] = list.text() })
	return values
}
