package sqlstoretest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// scripts and steps are how many random scripts run, and how long they are.
const scripts, steps = 15, 40

// A script is a series of random calls, each of which is compared with the reference.
type script struct {
	*testing.T
	seed  uint64
	rand  *rand.Rand
	store idempotency.Store
	key   string
	model *reference
	token int64
	trace []string
	begun []string // the runs that were open, the last one first
}

func newScript(t *testing.T, seed uint64, store idempotency.Store) *script {
	return &script{T: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 0)), store: store, key: fmt.Sprintf("idem:%x", seed), model: newReference()}
}

func (s *script) failf(format string, args ...any) {
	s.Helper()
	s.Fatalf("seed %d: %s\nafter %q", s.seed, fmt.Sprintf(format, args...), s.trace)
}

// run returns a run that has begun recently, or perhaps another one.
func (s *script) run() string {
	if len(s.begun) > 0 && s.rand.IntN(4) > 0 {
		return s.begun[s.rand.IntN(min(3, len(s.begun)))]
	}
	return fmt.Sprintf("%032x", s.rand.IntN(8))
}

func (s *script) begin() {
	s.token += int64(s.rand.IntN(4)) - 1
	c := idempotency.Claim{
		Key: s.key, Run: fmt.Sprintf("%032x", s.rand.IntN(1000)), Token: s.token, Over: s.rand.IntN(3) > 0, MaxSilent: 1 + s.rand.IntN(3), TTL: time.Hour,
		Fingerprint: idempotency.Fingerprint{31: byte(1 + s.rand.IntN(6)/5)},
	}
	if s.rand.IntN(5) == 0 {
		c.Run = s.run()
	}
	s.trace = append(s.trace, fmt.Sprintf("begin %s token %d over %t", c.Run[28:], c.Token, c.Over))
	want := s.model.begin(&c)
	rec, err := s.store.Begin(s.Context(), c)
	if errors.Is(err, idempotency.ErrSuperseded) != want || err != nil && !want {
		s.failf("the error is %v; superseded should be %t", err, want)
	}
	if s.model.rec.Run == c.Run {
		s.begun = append([]string{c.Run}, s.begun...)
	}
	if err == nil {
		s.compare(rec)
	}
}

func (s *script) end() {
	e := idempotency.End{Key: s.key, Run: s.run(), Outcome: idempotency.Outcome(s.rand.IntN(3)), TTL: time.Hour}
	if e.Outcome == idempotency.Keep {
		if s.rand.IntN(3) > 0 {
			return // a script ends early with an answer
		}
		e.Status, e.Answer = 200, []byte{0, 1, 255, byte(s.rand.IntN(2))}
	}
	s.trace = append(s.trace, fmt.Sprintf("end %s outcome %d", e.Run[28:], e.Outcome))
	want := s.model.end(&e)
	if got, err := s.store.End(s.Context(), e); got != want || err != nil {
		s.failf("End returned %t, %v, want %t", got, err, want)
	}
}

func (s *script) void() {
	run := s.run()
	s.trace = append(s.trace, "void "+run[28:])
	s.model.void(run)
	if err := s.store.Void(s.Context(), s.key, run); err != nil {
		s.failf("%v", err)
	}
}

func (s *script) compare(got idempotency.Record) {
	s.Helper()
	if age := time.Since(got.Began); got.State == idempotency.Open && age.Abs() > time.Minute {
		s.failf("an open run began %v ago", age)
	}
	got.Began = time.Time{}
	want := s.model.rec
	if len(got.Answer)+len(want.Answer) == 0 {
		got.Answer, want.Answer = nil, nil
	}
	if !reflect.DeepEqual(got, want) {
		s.failf("the record is\n%+v, want\n%+v", got, want)
	}
}

// play runs the script. more are operations of a Store in SQL.
func (s *script) play(more ...func()) {
	operations := append([]func(){s.begin, s.begin, s.begin, s.begin, s.end, s.end, s.void}, more...)
	for range steps {
		operations[s.rand.IntN(len(operations))]()
		rec, err := s.store.Look(s.Context(), s.key)
		if err != nil {
			s.failf("%v", err)
		}
		s.compare(rec)
	}
}

func seeds() (all []uint64) {
	first := uint64(time.Now().UnixNano())
	for i := range scripts {
		all = append(all, uint64(i), first+uint64(i))
	}
	return all
}

func TestTheReferenceIsTheMemory(t *testing.T) {
	run, err := idempotency.New(lockmw.NewLocal()).Begin(t.Context(), someKey, idempotency.Fingerprint{}, idempotency.Refuse)
	if err != nil {
		t.Fatal(err)
	}
	for _, seed := range seeds() {
		for i := range uint64(10) {
			newScript(t, seed+i<<32, run.Store()).play()
		}
	}
}

func testRandomScripts(t *testing.T, d database) {
	b := newTestbed(t, d)
	for _, seed := range seeds() {
		s := newScript(t, seed, b.store)
		commit := func() {
			run := s.run()
			s.trace = append(s.trace, "commit "+run[28:])
			want := s.model.commit(run)
			n := b.exec(`UPDATE `+b.records+` SET state = 'committed' WHERE idem_key = ? AND run = ? AND state = 'open' AND expires > `+b.now(), s.key, run)
			if want != (n == 1) {
				s.failf("a commit changed %d rows, want %t", n, want)
			}
		}
		expire := func() {
			if s.rand.IntN(3) > 0 {
				return
			}
			s.trace = append(s.trace, "expire")
			b.expire(s.key)
			s.model, s.token = newReference(), 0
		}
		s.play(commit, expire)
	}
}

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
