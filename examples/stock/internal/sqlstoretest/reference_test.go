package sqlstoretest

import (
	"bytes"

	"github.com/lockmw/go/idempotency"
)

// A reference is the record of one key as a Store should have it, written without regard to how one does.
type reference struct {
	rec   idempotency.Record
	voids map[string]bool
}

func newReference() *reference { return &reference{voids: map[string]bool{}} }

// begin returns whether the claim is superseded.
func (m *reference) begin(c *idempotency.Claim) (superseded bool) {
	r := &m.rec
	fresh := idempotency.Record{
		State: idempotency.Open, Run: c.Run, Token: c.Token, Fingerprint: c.Fingerprint, Earlier: r.Earlier, Silent: r.Silent,
	}
	if m.voids[c.Run] {
		return true
	}
	if r.State == idempotency.Done || r.State == idempotency.Committed {
		return false
	}
	if r.State == idempotency.Open {
		if r.Run == c.Run || r.Fingerprint != c.Fingerprint {
			return false
		}
		fresh.Earlier++
		if !r.Returned {
			fresh.Silent++
		}
	}
	if c.Token <= r.Token {
		return true
	}
	if r.State == idempotency.None || c.Over && fresh.Silent < c.MaxSilent {
		*r = fresh
	}
	return false
}

func (m *reference) end(e *idempotency.End) bool {
	r := &m.rec
	if r.Run != e.Run {
		return false
	}
	isOpen := r.State == idempotency.Open
	switch e.Outcome {
	case idempotency.Keep:
		if isOpen || r.State == idempotency.Committed {
			r.State, r.Answer = idempotency.Done, e.Answer
		}
		return r.State == idempotency.Done && bytes.Equal(r.Answer, e.Answer)
	case idempotency.Forget:
		if isOpen {
			m.forget()
		}
	case idempotency.Leave:
		r.Returned = r.Returned || isOpen
	}
	return isOpen
}

func (m *reference) forget() {
	m.rec.State, m.rec.Run, m.rec.Fingerprint = idempotency.None, "", idempotency.Fingerprint{}
}

func (m *reference) void(run string) {
	m.voids[run] = true
	switch r := &m.rec; {
	case r.State != idempotency.Open || r.Run != run || r.Returned:
	case r.Earlier == 0:
		m.forget()
	default:
		r.Earlier--
		r.Returned, r.Run = true, run+"-void"
	}
}

func (m *reference) commit(run string) bool {
	ok := m.rec.State == idempotency.Open && m.rec.Run == run
	if ok {
		m.rec.State = idempotency.Committed
	}
	return ok
}
