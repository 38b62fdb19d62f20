package script

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// PermitQueue returns the key of the sorted set of tickets for permits.
func (s *KeySet) PermitQueue() string { return s.Holder() + permitQueueSuffix }

// PermitTickets returns the key of the hash with the texts of the tickets for permits.
func (s *KeySet) PermitTickets() string { return s.Holder() + permitTicketsSuffix }

const (
	permitQueueSuffix   = ":permitqueue"
	permitTicketsSuffix = ":permittickets"
)

// keysFor returns the keys that most scripts need, in their order, for the lock or for the semaphore. The other differences are in the
// parts of the scripts that end in _locks.lua and _permits.lua: see script.go.
func (s *KeySet) keysFor(permit bool) [6]any {
	if !permit {
		return s.six
	}
	return [6]any{s.six[holderKey], s.PermitQueue(), s.PermitTickets(), s.six[fenceKey], s.six[queueKey], s.six[aliveKey]}
}

// readPermit reads a grant of a permit: one token, and slots.
func readPermit(r *transport.Reply) Grant {
	g := Grant{Token: r.Int(), Tokens: 1, Slots: r.Text(), Waiting: r.Int()}
	_, err := core.ParseSlots(g.Slots)
	if r.Err == nil && (err != nil || !g.isValid()) {
		r.Err = fmt.Errorf("%w: token %d, slots: %w", transport.ErrMalformed, g.Token, err)
	}
	return g
}

// readPermitHolders reads the answer of permits_shown.lua up to its end. next is the time until the first permit may end.
func readPermitHolders(r *transport.Reply, inboxPrefix string) (holders []core.Holder, next time.Duration) {
	next = r.TTL()
	now := time.UnixMicro(r.Int())
	for r.Err == nil && r.Left() > 0 {
		p, ok := ParsePermit(r.Text())
		if !ok || !p.Ends.After(now) {
			continue
		}
		h := core.Holder{
			Process: processOf(p.Inbox, inboxPrefix), TraceParent: p.Trace,
			Token: p.Token, Since: p.Since, TTL: p.Ends.Sub(now.Truncate(time.Millisecond)),
			Weight: max(p.Weight, 1), Slots: p.Slots,
		}
		DescribeHolder(&h, p.Holder, now)
		holders = append(holders, h)
	}
	if r.Err != nil {
		return nil, 0
	}
	return holders, next
}

// A Permit is the content of a permit's field.
type Permit struct {
	Ends, Since   time.Time
	Token         int64
	Weight        int
	Slots         string
	Inbox, Holder string // Holder is the owner field: see HolderInfo
	Trace         string
}

// PermitField is the prefix of the fields of permits.
const PermitField = "p:"

// ParsePermit reads the field of a permit; false if it is malformed. Other programs may have written it.
func ParsePermit(text string) (p Permit, ok bool) {
	fields := append(strings.Split(text, " "), "")
	if len(fields) < 9 {
		return p, false
	}
	var numbers [5]int64
	for i := range numbers {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return p, false
		}
		numbers[i] = n
	}
	return Permit{
		Ends: time.UnixMilli(numbers[0]), Since: core.Instant(numbers[1], time.Microsecond), Token: numbers[2], Weight: int(numbers[4]),
		Slots: fields[5], Inbox: fields[6], Holder: fields[7], Trace: fields[8],
	}, true
}
