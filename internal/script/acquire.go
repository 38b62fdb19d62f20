package script

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// An Acquire takes a lock, or queues a ticket for it. A repeated execution does no harm.
type Acquire struct {
	Keys  *KeySet
	ID    *ID
	Lease time.Duration
	Info  HolderInfo // information about the hold
	Mode  core.Mode
	Trace string // traceparent stored with the lock

	Inbox any // the channel for grants, a string

	SecretOf    func(holder string) Secret // makes the secret of the tickets for a lock, as Secrets.Of does; nil: they have none
	Tokens      int                        // tokens wanted if the lock is free
	QueueTokens int                        // tokens wanted if it is granted later; 0: do not queue
	MayBatch    bool                       // its ticket may be in a grant batch
	Calls       int                        // calls of the process that share the ticket, if there are several

	Predecessor *Predecessor
	Place       string        // name of a kept place in the queue; "": none
	KeepPlace   time.Duration // how long the place is kept from now on if the call does not get the lock

	Vote *core.Vote // nil: the lock is not over several nodes

	Record *core.RecordClaim // opens the record of the key if the lock is taken; nil: the call has no record

	Permits, Weight int // n of the semaphore, and the weight wanted; 0: it is a lock
}

// A Predecessor is replaced by an acquire: a hold that is handed over, or a ticket that was lost.
type Predecessor struct {
	ID    *ID
	Lease time.Duration
	Lost  bool  // it is a ticket, and its id gets a done mark
	Place int64 // place of the ticket in the queue; 0: unknown
}

// Call prepares one execution. done is called once, with the answer.
func (a *Acquire) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	permit := a.Permits > 0
	special := a.Predecessor != nil || a.KeepPlace > 0 || a.Calls > 1
	trace := traceField(a.Trace)
	extra := permit || special || a.Vote != nil || a.Tokens > 1 || trace != "" || a.Mode == core.Read
	keys, args := 7, 5
	switch {
	case special:
		keys, args = 9, 15
	case permit || a.Vote != nil:
		args = 10
	case extra || a.Mode != core.Exclusive:
		args = 8
	}
	k, run := new(acquireCall), s.of(permit).acquire
	if a.Record != nil {
		run, keys, args = s.recordAcquire, keys+1, args+4
	}
	k.Prepare(ctx, run, keys+args, done)
	k.Copies = &a.ID.copies
	all := a.Keys.keysFor(permit)
	k.AddKeys(all[:]...)
	k.AddKeys(a.Keys.doneOf(a.ID))
	if special {
		a.addSpecialKeys(k)
	}
	if a.Record != nil {
		k.AddKeys(a.Keys.Record())
	}
	switch {
	case special || permit || a.Record != nil:
	case a.Mode == core.Exclusive && a.Vote != nil:
		k.Batch = s.votes
	case a.Mode == core.Exclusive && !extra:
		k.Batch = s.acquires
	case (a.Mode == core.Fair || a.Mode == core.Write) && a.Vote == nil && a.QueueTokens > 0:
		k.Batch = s.queues
	}
	k.Add(a.ID, a.Lease.Milliseconds(), a.Inbox, a.Info.String(), a.queueArg(k))
	switch {
	case permit:
		k.Add("permit", a.Weight, trace, a.Permits, "")
	case extra:
		k.Add(a.Mode.String(), a.Tokens, trace)
	case a.Mode != core.Exclusive:
		k.Add(a.Mode.String())
	}
	if !permit && (a.Vote != nil || special) {
		a.addVote(k)
	}
	if special {
		a.addSpecialArgs(k)
	}
	if a.Record != nil {
		addClaim(&k.Call, a.Record)
	}
	return &k.Call
}

// An acquireCall is a Call for an Acquire, allocated with its longest argument.
type acquireCall struct {
	transport.Call
	queueArg queueArg
}

// addVote adds the proposed token, and whether a refused try notifies the holder.
func (a *Acquire) addVote(k *acquireCall) {
	token, wants := any(""), ""
	if v := a.Vote; v != nil {
		token = v.Token
		if v.NotifyHolder {
			wants = "1"
		}
	}
	k.Add(token, wants)
}

// addSpecialKeys adds the predecessor's done mark and the kept place.
func (a *Acquire) addSpecialKeys(k *acquireCall) {
	if a.Predecessor == nil && a.KeepPlace <= 0 {
		return
	}
	over := a.ID
	if a.Predecessor != nil {
		over = a.Predecessor.ID
	}
	k.AddKeys(a.Keys.Done(over.String()))
	if a.KeepPlace > 0 {
		k.AddKeys(a.Keys.Kept(a.Place))
	}
}

func (a *Acquire) addSpecialArgs(k *acquireCall) {
	id, place, mark := "", "", int64(0)
	if p := a.Predecessor; p != nil {
		id = p.ID.String()
		if p.Place > 0 {
			place = strconv.FormatInt(p.Place, 10)
		}
		if p.Lost || p.ID.Copied() {
			mark = doneMillis
		}
	}
	k.Add(id, place, mark, a.KeepPlace.Milliseconds())
	if a.Calls > 1 {
		k.Add(a.Calls)
	}
}

// queueArg returns the argument for the case that the lock is not free. It is stored in k.
func (a *Acquire) queueArg(k *acquireCall) any {
	if a.QueueTokens == 0 {
		return "0"
	}
	q := &k.queueArg
	text := strconv.AppendInt(q.room[:0], int64(a.QueueTokens), 10)
	if a.MayBatch {
		text = append(text, 'r')
	}
	q.length, q.holder, q.secretOf = int8(len(text)), a.Keys.Holder(), a.SecretOf
	return q
}

// A queueArg is an argument of a command. Its secret is made only when the command is written: most acquires that succeed
// immediately are executed by acquire_batch.lua, which has no such argument.
type queueArg struct {
	holder   string
	secretOf func(holder string) Secret // nil: the ticket has no secret
	once     sync.Once
	length   int8 // of the text in room, without the secret
	room     [40]byte
}

func (q *queueArg) text() []byte { return q.room[:q.length] }

// MarshalBinary implements encoding.BinaryMarshaler. go-redis calls it when it writes the command.
func (q *queueArg) MarshalBinary() ([]byte, error) {
	if q.secretOf == nil {
		return q.text(), nil
	}
	n := int(q.length)
	q.once.Do(func() { // a command may be written twice at the same time: see cluster.go of package transport
		secret := q.secretOf(q.holder)
		q.room[n] = ':'
		copy(q.room[n+1:], secret[:])
	})
	return q.room[:n+1+secretLen], nil
}

// IsSame reports whether q and another argument for the same lock are equal. All tickets for one lock have the same secret.
func (q *queueArg) IsSame(other any) bool {
	o, ok := other.(*queueArg)
	return ok && bytes.Equal(q.text(), o.text())
}

// traceField returns the traceparent, or "" if it cannot be stored in a ticket, whose fields are separated by spaces.
func traceField(trace string) string {
	if len(trace) > 100 || strings.ContainsFunc(trace, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return trace
}

// Positions of the arguments of a plain acquire in a Call; acquire_batch.lua gets some of them.
const (
	acquireHolder = transport.FirstKey + iota
	acquireQueue
	acquireTickets
	acquireFence
	acquireReaders
	acquireAlive
	acquireDone
	acquireID
	acquireLease
	acquireInbox
	acquireOwner
	acquireQueueArg
	acquireMode // absent in a plain acquire without extras
	acquireTokens
	acquireTrace
	acquireProposal
)

func acquireBatch(s *transport.Script) *transport.Batch {
	return &transport.Batch{
		Script:     s,
		SharedKeys: []int{acquireFence}, Keys: []int{acquireHolder, acquireQueue, acquireDone},
		SharedArgs: []int{acquireInbox}, Args: []int{acquireID, acquireLease, acquireOwner},
	}
}

// voteBatch is for locks over several nodes.
func voteBatch(s *transport.Script) *transport.Batch {
	return &transport.Batch{
		Script: s, SharedKeys: []int{acquireFence}, Keys: []int{acquireHolder, acquireQueue, acquireDone}, SharedArgs: []int{acquireInbox},
		Args: []int{acquireID, acquireLease, acquireOwner, acquireTokens, acquireTrace, acquireProposal},
	}
}

// queueBatch is for tickets of one lock in strict order. Each caller has its own ticket.
func queueBatch(s *transport.Script) *transport.Batch {
	return &transport.Batch{
		Script: s, OneLock: true,
		SharedKeys: []int{acquireHolder, acquireQueue, acquireTickets, acquireFence, acquireReaders, acquireAlive}, Keys: []int{acquireDone},
		SharedArgs: []int{acquireLease, acquireInbox, acquireQueueArg, acquireMode}, Args: []int{acquireID, acquireOwner, acquireTrace},
	}
}

// An Acquired is the answer to an Acquire.
type Acquired struct {
	Outcome Outcome       // Held, Queued, Over, Again or Settled
	Grant   Grant         // of a lock that is held
	Clock   int64         // the server's time (µs), if the lock is over several nodes and was free; otherwise 0
	Stamp   int64         // the fencing counter, for a ticket that is queued
	Place   int64         // in the queue
	Wait    core.Wait     // the holders
	Next    time.Duration // of a semaphore: until the first permit may end
	Record  *core.Record  // that decides what the call gets, if it is Settled
}

// AcquireAnswer reads the answer to an Acquire. If the call did not want to be queued, Queued means that the lock is busy.
func AcquireAnswer(r *transport.Reply, inboxPrefix string) (a Acquired, err error) {
	if text, ok := r.Single().(string); ok && text >= "a" && r.Err == nil { // a record begins with a letter, a token with a digit
		a.Outcome, a.Record = Settled, readRecord(r)
		return a, r.Err
	}
	if token, ok := readToken(r); ok {
		return Acquired{Outcome: Held, Grant: Grant{Token: token, Tokens: 1}}, nil
	}
	switch code := r.Int(); {
	case r.Err != nil:
	case code == 1:
		a.Outcome, a.Grant = Held, readGrant(r)
		if r.Err == nil && r.Left() > 0 {
			a.Clock = r.Int()
		}
	case code == 0 || code == 4:
		a.Outcome = Queued
		a.Stamp = r.Int()
		a.Wait.Position, a.Wait.Queued = int(r.Int()), int(r.Int())
		a.Place = r.Int()
		if code == 4 {
			a.Wait.Holders, a.Next = readPermitHolders(r, inboxPrefix)
		} else {
			a.Wait.Holders = readHolders(r, inboxPrefix)
		}
	case code == 3:
		a.Outcome, a.Grant = Held, readPermit(r)
	case code == 2:
		a.Outcome = Again
	case code == 6:
		a.Outcome, a.Grant = Held, Grant{Token: r.Int(), Tokens: 1, Waiting: r.Int()}
		a.Grant.Opened, a.Grant.Earlier, a.Grant.RecordToken = r.Int() == 1, int(r.Int()), r.Int()
		if r.Err == nil && !a.Grant.isValid() {
			r.SetMalformed()
		}
	default:
		a.Outcome = Over
	}
	return a, r.Err
}
