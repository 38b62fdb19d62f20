package scripttest

import (
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// Claims returns an acquire in strict order that opens the record of the key.
func (d *Driver) Claims(id string, claim core.RecordClaim) *script.Acquire {
	op := Acquire{ID: id, Mode: core.Fair}.Operation(d)
	op.Record = &claim
	return op
}

// Claim runs record_acquire.lua as often as its answer says.
func (d *Driver) Claim(id string, claim core.RecordClaim) script.Acquired {
	d.Helper()
	for {
		got, err := script.AcquireAnswer(d.Send(d.Claims(id, claim)), d.layout.InboxPrefix())
		d.check("acquire with a record", id, err)
		if got.Outcome != script.Again {
			return got
		}
	}
}

// BeginRecord runs record_begin.lua for a hold with that token. The record is nil if the outcome is not Done.
func (d *Driver) BeginRecord(id string, token int64, claim core.RecordClaim) (*core.Record, script.Outcome) {
	d.Helper()
	rec, outcome, err := script.RecordBeginAnswer(d.Send(&script.RecordBegin{Keys: d.Keys, ID: ID(id), Token: token, Claim: &claim}))
	d.check("begin of a record", id, err)
	return rec, outcome
}

// EndRecord runs record_end.lua.
func (d *Driver) EndRecord(end core.RecordEnd) (ok bool) {
	d.Helper()
	ok, err := script.RecordEndAnswer(d.Send(&script.RecordEnd{Keys: d.Keys, End: &end}))
	d.check("end of a record", end.Run, err)
	return ok
}

// ReleaseRecord runs record_release.lua.
func (d *Driver) ReleaseRecord(id string, end core.RecordEnd) (ok bool, released script.Outcome) {
	d.Helper()
	r := d.Send(&script.Release{Keys: d.Keys, ID: ID(id), Record: &end})
	ok, err := script.RecordEndAnswer(r)
	d.check("release with a record", id, err)
	released, err = script.EndedAnswer(r)
	d.check("release with a record", id, err)
	return ok, released
}

// CancelRecord runs record_cancel.lua for an id that is refused from now on.
func (d *Driver) CancelRecord(id, run string) script.Outcome {
	d.Helper()
	return d.CancelBegun(id, run, 0)
}

// CancelBegun is CancelRecord of an id whose run works, since the record had that token.
func (d *Driver) CancelBegun(id, run string, token int64) script.Outcome {
	d.Helper()
	return d.cancel(&script.Cancel{ID: id, Mark: true, Run: run, Begun: token})
}

// Record reads the record of the key; nil if there is none.
func (d *Driver) Record() *core.Record {
	d.Helper()
	text := d.RecordText()
	if text == "" {
		return nil
	}
	rec, ok := script.ParseRecord(text)
	if !ok {
		d.Fatalf("the record is %q", text)
	}
	return rec
}

// RecordText reads the text of the record of the key; "" if there is none.
func (d *Driver) RecordText() string {
	d.Helper()
	text, err := d.Redis.Get(d.Context(), d.Keys.Record()).Result()
	if errors.Is(err, redis.Nil) {
		return ""
	}
	d.check("reading", "the record", err)
	return text
}
