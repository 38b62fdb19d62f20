package script

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// The scripts for the permits of semaphores (rule 26 of docs/protocol.md). A permit is a hold, so the operations are those of
// locks: each prepares a run of its permit's script if it is told that it is for one.

type permitScripts struct {
	acquire, poll, renew, release, cancel, disown, force *transport.Script
}

func newPermitScripts(assemble func(string) *transport.Script) permitScripts {
	s := permitScripts{
		acquire: assemble("permit_acquire"), poll: assemble("permit_poll"), renew: assemble("permit_renew"),
		release: assemble("permit_release"), cancel: assemble("permit_cancel"), disown: assemble("permit_disown"), force: assemble("permit_force"),
	}
	s.acquire.NeedsReplicas, s.renew.NeedsReplicas = true, true
	return s
}

func (s *permitScripts) byName() map[string]*transport.Script {
	return map[string]*transport.Script{
		"permit_acquire": s.acquire, "permit_poll": s.poll, "permit_renew": s.renew, "permit_release": s.release,
		"permit_cancel": s.cancel, "permit_disown": s.disown, "permit_force": s.force,
	}
}

// PermitQueue is the sorted set of tickets for permits.
func (s *KeySet) PermitQueue() string { return s.Holder() + permitQueueSuffix }

// PermitTickets is the hash that says what is granted to each ticket for permits.
func (s *KeySet) PermitTickets() string { return s.Holder() + permitTicketsSuffix }

const (
	permitQueueSuffix   = ":permitqueue"
	permitTicketsSuffix = ":permittickets"
)

// permitKeys returns the keys that most scripts for permits work on, in their order.
func (s *KeySet) permitKeys() [4]any {
	return [4]any{s.five[holderKey], s.PermitQueue(), s.PermitTickets(), s.five[fenceKey]}
}

// callOf prepares a run of one of two scripts, with the keys that most of their kind work on: of forLock, or of forPermit.
func callOf(ctx context.Context, forLock, forPermit *transport.Script, keys *KeySet, permit bool, size int, done func(*transport.Reply)) *transport.Call {
	if !permit {
		k := transport.NewCall(ctx, forLock, 5+size, done)
		k.AddKeys(keys.five[:]...)
		return k
	}
	k, four := transport.NewCall(ctx, forPermit, 4+size, done), keys.permitKeys()
	k.AddKeys(four[:]...)
	return k
}

// permitCall prepares a run for a permit.
func (a *Acquire) permitCall(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	special := a.Predecessor != nil || a.KeepPlace > 0
	k, four := new(acquireCall), a.Keys.permitKeys()
	k.Prepare(ctx, s.permit.acquire, 4+5+12, done)
	k.Copies = &a.ID.copies
	k.AddKeys(four[:]...)
	k.AddKeys(a.Keys.doneOf(a.ID), a.Keys.five[queueKey], a.Keys.five[readQueueKey])
	if special {
		a.addSpecialKeys(k)
	}
	k.Add(a.ID, a.Lease.Milliseconds(), a.Inbox, a.About.String(), a.ifQueued(k), a.Permits, a.Weight, traceField(a.Trace))
	if special {
		a.addSpecialArgs(k)
	}
	return &k.Call
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
