package script

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// The records of keys (rule 28 of docs/protocol.md). Acquire, Release and Cancel deal with the record of their key if they have one.

// Record returns the key of the record of the lock's key.
func (s *KeySet) Record() string { return s.Holder() + recordSuffix }

const recordSuffix = ":record"

// addClaim adds the arguments of a claim, which come last.
func addClaim(k *transport.Call, c *core.RecordClaim) {
	most := 0
	if c.Over {
		most = c.MaxSilent
	}
	k.Add(c.Run, c.Fingerprint, most, transport.RoundUp(c.TTL))
}

func addEnd(k *transport.Call, e *core.RecordEnd) {
	k.Add(e.Run, e.Outcome, transport.RoundUp(e.TTL), e.Status, e.Answer)
}

// A RecordBegin opens the record of a key for a hold. A repeated execution does no harm.
type RecordBegin struct {
	Keys  *KeySet
	ID    *ID
	Token int64 // of the hold
	Claim *core.RecordClaim
}

// Call prepares one execution. done is called once, with the answer.
func (b *RecordBegin) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	k := transport.NewCall(ctx, s.recordBegin, 2+6, done)
	k.AddKeys(b.Keys.Holder(), b.Keys.Record())
	k.Add(b.ID.String(), b.Token)
	addClaim(k, b.Claim)
	return k
}

// RecordBeginAnswer reads the answer to a RecordBegin: Done, NotHeld, or Over if a later run has begun.
func RecordBeginAnswer(r *transport.Reply) (*core.Record, Outcome, error) {
	code := r.Int()
	switch {
	case r.Err != nil:
		return nil, Unknown, r.Err
	case code == -1:
		return nil, NotHeld, nil
	case code == 2:
		return nil, Over, nil
	}
	rec := readRecord(r)
	return rec, Done, r.Err
}

// readRecord reads a record in an answer.
func readRecord(r *transport.Reply) *core.Record {
	rec, ok := ParseRecord(r.Text())
	if !ok {
		r.SetMalformed()
	}
	return rec
}

// A RecordEnd ends a run of a key's work. A repeated or late execution does no harm.
type RecordEnd struct {
	Keys *KeySet
	End  *core.RecordEnd
}

// Call prepares one execution. done is called once, with the answer.
func (e *RecordEnd) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	k := transport.NewCall(ctx, s.recordEnd, 1+5, done)
	k.AddKeys(e.Keys.Record())
	addEnd(k, e.End)
	return k
}

// RecordEndAnswer reads the answer to a RecordEnd: whether the record was the run's.
func RecordEndAnswer(r *transport.Reply) (ok bool, err error) {
	code := r.Int()
	if r.Err == nil && code != 0 && code != 1 {
		r.SetMalformed()
	}
	return code == 1, r.Err
}

// ParseRecord reads the text of a record, as record.lua describes it. The text "" is that of no record. ok is false, and the record
// empty, if another program wrote it.
func ParseRecord(text string) (rec *core.Record, ok bool) {
	rec = new(core.Record)
	if text == "" {
		return rec, true
	}
	w := words{rest: text}
	state := w.next()
	rec.Run, rec.Token, rec.Fingerprint = w.text(), w.number(), w.text()
	rec.Earlier, rec.Silent, rec.Returned = int(w.number()), int(w.number()), w.number() != 0
	rec.Began, rec.ID = w.time(), w.text()
	switch state {
	case "none":
	case "open":
		rec.State = core.RecordOpen
	case "done":
		rec.State = core.RecordDone
		rec.Ended, rec.Status, rec.Answer = w.time(), int(w.number()), []byte(w.rest)
	default:
		w.bad = true
	}
	if w.bad {
		return new(core.Record), false
	}
	return rec, true
}

// words reads a text word by word. A single space ends each word.
type words struct {
	rest string
	bad  bool // a word is missing, or is not what it must be
}

func (w *words) next() string {
	word, rest, _ := strings.Cut(w.rest, " ")
	w.rest, w.bad = rest, w.bad || word == ""
	return word
}

// text reads a word; "" if it stands for nothing.
func (w *words) text() string {
	if word := w.next(); word != nothing {
		return word
	}
	return ""
}

func (w *words) number() int64 {
	n, err := strconv.ParseInt(w.next(), 10, 64)
	w.bad = w.bad || err != nil
	return n
}

// time reads a time in microseconds; the zero Time if the word stands for nothing.
func (w *words) time() time.Time {
	if rest, ok := strings.CutPrefix(w.rest, nothing+" "); ok {
		w.rest = rest
		return time.Time{}
	}
	return core.Instant(w.number(), time.Microsecond)
}

// nothing is a word in a record that stands for nothing.
const nothing = "-"
