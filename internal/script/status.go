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

// A Status reads everything that is stored for one lock, in one execution.
type Status struct {
	Keys *KeySet
	Kept []string // names of kept places to read
}

// Call prepares one execution. done is called once, with the answer.
func (s *Status) Call(ctx context.Context, set *Set, done func(*transport.Reply)) *transport.Call {
	k := transport.NewCall(ctx, set.status, 9+len(s.Kept), done)
	k.AddKeys(s.Keys.six[:]...)
	k.AddKeys(s.Keys.PermitQueue(), s.Keys.PermitTickets(), s.Keys.Record())
	for _, name := range s.Kept {
		k.AddKeys(s.Keys.Kept(name))
	}
	return k
}

// Stored is the answer to a Status.
type Stored struct {
	Now         time.Time         // by the server's clock
	TTL         time.Duration     // of the holder
	Holder      map[string]string // the fields of the holder's hash
	Tickets     []string          // of all queues, by their places
	TicketTexts map[string]string // the texts of tickets
	Seen        map[string]string // entries of live processes, by their inboxes
	Kept        []StoredPlace     // in the order of the Status
	Record      StoredRecord
}

// A StoredPlace is a kept place. At is "" if there is none.
type StoredPlace struct {
	At  string
	TTL time.Duration
}

// A StoredRecord is the record of the key, without its run, request and answer.
type StoredRecord struct {
	Text   string // see ParseRecord; "": there is no record
	Answer int    // bytes of the answer
	TTL    time.Duration
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
				queue.SetMalformed()
			}
			all = append(all, t)
		})
	}
	slices.SortStableFunc(all, func(a, b ticket) int { return cmp.Compare(a.place, b.place) })
	for _, t := range all {
		s.Tickets = append(s.Tickets, t.id)
	}
	s.TicketTexts = readPairs(r)
	maps.Copy(s.TicketTexts, readPairs(r))
	s.Seen = readPairs(r)
	r.Each(func(kept *transport.Reply) { s.Kept = append(s.Kept, StoredPlace{At: kept.Text(), TTL: kept.TTL()}) })
	s.Record = StoredRecord{Text: r.Text(), Answer: int(r.Int()), TTL: r.TTL()}
	return s, r.Err
}

// readPairs reads a list of fields and values.
func readPairs(r *transport.Reply) map[string]string {
	values := make(map[string]string)
	r.Each(func(list *transport.Reply) { field := list.Text(); values[field] = list.Text() })
	return values
}
