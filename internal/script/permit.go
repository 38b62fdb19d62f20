package script

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// PermitQueue is the sorted set of tickets for permits.
func (s *KeySet) PermitQueue() string { return s.Holder() + permitQueueSuffix }

// PermitTickets is the hash that says what is granted to each ticket for permits.
func (s *KeySet) PermitTickets() string { return s.Holder() + permitTicketsSuffix }

const (
	permitQueueSuffix   = ":permitqueue"
	permitTicketsSuffix = ":permittickets"
)

// keysFor returns the keys that most scripts work on, in their order: those of the lock, or of the semaphore.
func (s *KeySet) keysFor(permit bool) [6]any {
	if !permit {
		return s.six
	}
	return [6]any{s.six[holderKey], s.PermitQueue(), s.PermitTickets(), s.six[fenceKey], s.six[queueKey], s.six[aliveKey]}
}

// readPermit reads what a granted id may use: one token, and slots.
func readPermit(r *transport.Reply) Grant {
	g := Grant{Token: r.Int(), Tokens: 1, Slots: r.Text(), Waiting: r.Int()}
	_, err := core.ParseSlots(g.Slots)
	if r.Err == nil && (err != nil || !g.isValid()) {
		r.Err = fmt.Errorf("%w: token %d, slots: %w", transport.ErrStrange, g.Token, err)
	}
	return g
}

// readPermitHolders reads what permits_shown.lua returns, up to the end. It also returns when the first of all permits may end.
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

// A Permit is what the field of one says.
type Permit struct {
	Ends, Since   time.Time
	Token         int64
	Weight        int
	Slots         string
	Inbox, Holder string // Holder: see About
	Trace         string
}

// PermitField is what the names of fields begin with that are permits.
const PermitField = "p:"

// ParsePermit reads the field of a permit. Others may have written it.
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
		Ends: time.UnixMilli(numbers[0]), Since: time.UnixMicro(numbers[1]), Token: numbers[2], Weight: int(numbers[4]),
		Slots: fields[5], Inbox: fields[6], Holder: fields[7], Trace: fields[8],
	}, true
}
