package script

import (
	"context"
	"strconv"
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
	over := 0
	if c.Over {
		over = 1
	}
	k.Add(c.Run, c.Fingerprint, over, c.MaxSilent, transport.RoundUp(c.TTL))
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
	k := transport.NewCall(ctx, s.recordBegin, 2+7, done)
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

// readRecord reads the answer of show_record in record.lua, without its code.
func readRecord(r *transport.Reply) *core.Record {
	state := r.Text()
	rec := &core.Record{
		Run: r.Text(), Token: r.Int(), Fingerprint: r.Text(), Earlier: int(r.Int()), Silent: int(r.Int()), Returned: r.Int() != 0,
		Began: time.UnixMicro(r.Int()), Answer: []byte(r.Text()),
	}
	switch state {
	case "":
	case "open":
		rec.State = core.RecordOpen
	case "done":
		rec.State = core.RecordDone
	default:
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

// ParseRecord reads the fields of a record's hash, for people who inspect it; nil if there is no record.
func ParseRecord(fields map[string]string) *core.Record {
	if len(fields) == 0 {
		return nil
	}
	number := func(name string) int64 { n, _ := strconv.ParseInt(fields[name], 10, 64); return n }
	rec := &core.Record{
		Run: fields["run"], Token: number("token"), Earlier: int(number("earlier")), Silent: int(number("silent")),
		Returned: fields["returned"] != "", Began: time.UnixMicro(number("began")),
	}
	switch fields["state"] {
	case "open":
		rec.State = core.RecordOpen
	case "done":
		rec.State = core.RecordDone
	}
	return rec
}
