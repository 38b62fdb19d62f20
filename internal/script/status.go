package script

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/lockmw/go/internal/transport"
)

// A Status reads what is stored of one lock, in one run.
type Status struct {
	Keys *KeySet
	Kept []string // names of kept places to look at
}

// Call prepares a run. done is called once, with the answer.
func (s *Status) Call(ctx context.Context, set *Set, done func(*transport.Reply)) *transport.Call {
	k := transport.NewCall(ctx, set.status, 8+len(s.Kept), done)
	k.AddKeys(s.Keys.six[:]...)
	k.AddKeys(s.Keys.PermitQueue(), s.Keys.PermitTickets())
	for _, name := range s.Kept {
		k.AddKeys(s.Keys.Kept(name))
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
	Seen    map[string]string // when the processes that wait were last seen, by their inboxes
	Kept    []StoredPlace     // as they were asked for
}

// A StoredPlace is a kept place. At is "" if there is none.
type StoredPlace struct {
	At  string
	TTL time.Duration
}

// StatusAnswer reads the answer to a Status.
func StatusAnswer(r *transport.Reply) (*Stored, error) {
	s := &Stored{Now: time.Unix(r.Int(), r.Int()*1000), TTL: r.TTL(), Holder: readPairs(r)}
	type ticket struct {
		id    string
		place float64
	}
	var all []ticket
	for range 3 {
		r.Each(func(queue *transport.Reply) {
			t := ticket{id: queue.Text()}
			var err error
			if t.place, err = strconv.ParseFloat(queue.Text(), 64); err != nil {
				queue.Strange()
			}
			all = append(all, t)
		})
	}
	slices.SortStableFunc(all, func(a, b ticket) int { return cmp.Compare(a.place, b.place) })
	for _, t := range all {
		s.Tickets = append(s.Tickets, t.id)
	}
	s.Noted = readPairs(r)
	maps.Copy(s.Noted, readPairs(r))
	s.Seen = readPairs(r)
	r.Each(func(kept *transport.Reply) { s.Kept = append(s.Kept, StoredPlace{At: kept.Text(), TTL: kept.TTL()}) })
	return s, r.Err
}

// readPairs reads a list of fields and values.
func readPairs(r *transport.Reply) map[string]string {
	values := make(map[string]string)
	r.Each(func(list *transport.Reply) { field := list.Text(); values[field] = list.Text() })
	return values
}
