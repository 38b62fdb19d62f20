package script_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
)

// A recordModel is a simple lock without a queue, and the record of its key, as rule 28 of docs/protocol.md describes them.
type recordModel struct {
	now      time.Duration
	holder   string
	holds    time.Duration            // until then
	ended    map[string]time.Duration // until when an id is refused
	rec      modelRecord
	lifetime time.Duration // of the record: until then
}

type modelRecord struct {
	state, run, print, id, answer string
	token                         int64
	earlier, silent               int
	returned                      bool
}

func (m *recordModel) isHeld(id string) bool { return m.holder == id && m.now < m.holds }

// acquire returns the expected answer of a try for the lock.
func (m *recordModel) acquire(id string) script.Outcome {
	switch {
	case m.now < m.ended[id]:
		return script.Over
	case m.isHeld(id):
		m.holds = max(m.holds, m.now+scripttest.Lease)
	case m.now < m.holds:
		return script.Queued
	default:
		m.holder, m.holds = id, m.now+scripttest.Lease
	}
	return script.Held
}

func (m *recordModel) release(id string) bool {
	held := m.isHeld(id)
	if held {
		m.holder, m.holds = "", 0
	}
	return held
}

// record returns the record, without one that has expired.
func (m *recordModel) record() *modelRecord {
	if m.now >= m.lifetime {
		m.rec = modelRecord{}
	}
	return &m.rec
}

func (m *recordModel) isSettled(c *core.RecordClaim) bool {
	r := m.record()
	return r.state == "done" || r.state == "open" && r.print != c.Fingerprint
}

// begin opens the record for the hold of an id. It returns the code of open_record in record.lua.
func (m *recordModel) begin(id string, token int64, c *core.RecordClaim) int {
	r := m.record()
	isOwn := r.state == "open" && r.run == c.Run
	switch {
	case isOwn:
	case m.isSettled(c):
		return 0
	case token <= r.token:
		return 2
	case r.state == "open":
		silent := r.silent
		if !r.returned {
			silent++
		}
		if !c.Over || silent >= c.MaxSilent {
			return 0
		}
		r.earlier, r.silent = r.earlier+1, silent
		fallthrough
	default:
		r.state, r.run, r.print, r.token, r.returned = "open", c.Run, c.Fingerprint, token, false
	}
	r.id, m.lifetime = id, m.now+c.TTL
	return 1
}

// end ends a run. id and begun come from the command, and only count to make the run void.
func (m *recordModel) end(e *core.RecordEnd, id string, begun int64) bool {
	r := m.record()
	void := e.Outcome == "void"
	if r.run != e.Run || r.state == "" && e.Outcome != "forget" || r.state == "done" && (e.Outcome != "keep" || r.answer != string(e.Answer)) || void && (r.id != id || r.returned || r.token == begun) {
		return false
	}
	if e.Outcome == "keep" {
		m.lifetime = m.now + e.TTL
	}
	switch {
	case r.state == "done", r.state == "":
	case e.Outcome == "keep":
		r.state, r.answer = "done", string(e.Answer)
	case e.Outcome == "leave":
		r.returned = true
	case void && r.earlier > 0:
		r.run, r.returned, r.earlier = r.run+"-void", true, r.earlier-1
	default:
		*r = modelRecord{run: r.run, token: r.token, earlier: r.earlier, silent: r.silent}
		if void {
			r.run = ""
		}
	}
	return true
}

// fields returns what the record contains, apart from times; nil for no record.
func (m *recordModel) fields() map[string]string {
	r := m.record()
	if *r == (modelRecord{}) {
		return nil
	}
	all := map[string]string{
		"state": cmp.Or(r.state, "none"), "run": r.run, "print": r.print, "id": r.id, "answer": r.answer, "token": fmt.Sprint(r.token),
		"earlier": fmt.Sprint(r.earlier), "silent": fmt.Sprint(r.silent),
	}
	if r.returned {
		all["returned"] = "1"
	}
	maps.DeleteFunc(all, func(_, v string) bool { return v == "" })
	return all
}

// storedFields returns the parts of the record, apart from times and the status.
func storedFields(d *scripttest.Driver) map[string]string {
	d.Helper()
	text := d.RecordText()
	if text == "" {
		return nil
	}
	words := strings.SplitN(text, " ", 12)
	all := make(map[string]string)
	for i, name := range []string{"state", "run", "token", "print", "earlier", "silent", "returned", "began", "id", "ended", "status", "answer"} {
		if i < len(words) && words[i] != "-" && (name != "returned" || words[i] != "0") {
			all[name] = words[i]
		}
	}
	for _, name := range []string{"began", "ended", "status"} {
		delete(all, name)
	}
	return all
}

// Random calls, repeated and late, with leases that expire: the scripts do the same as the model.
func TestRecordsDoWhatASimpleModelDoes(t *testing.T) {
	race.FindsNothing(t)
	t.Run("clock", func(t *testing.T) {
		scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) { compareRecords(t, d, later) })
	})
	t.Run("redis", func(t *testing.T) {
		compareRecords(t, scripttest.New(t, redistest.Real(t).NewClient(t), t.Name()), nil)
	})
}

// compareRecords compares random executions with the model. Without a clock that later moves, leases end otherwise.
func compareRecords(t *testing.T, d *scripttest.Driver, later func(time.Duration)) {
	d.Tidy = false
	rapid.Check(t, func(r *rapid.T) {
		d.Redis.FlushAll(d.Context())
		c := &comparison{T: r, d: d, m: recordModel{ended: make(map[string]time.Duration)}, tokens: make(map[string]int64), later: later}
		r.Repeat(map[string]func(*rapid.T){
			"claim": c.claim, "claim again": c.claim, "begin": c.begin, "lock": c.lock, "release": c.release,
			"release with its end": c.releaseRecord, "end": c.end, "cancel": c.cancel, "time": c.time, "": c.check,
		})
	})
}

// A comparison executes each step by the scripts and by the model.
type comparison struct {
	*rapid.T
	d      *scripttest.Driver
	m      recordModel
	tokens map[string]int64 // of the last hold of an id
	last   int64            // the greatest token
	later  func(time.Duration)
}

func (c *comparison) id(r *rapid.T) string {
	return rapid.SampledFrom(scripttest.IDs("a", 4)).Draw(r, "id")
}
func (c *comparison) run(r *rapid.T) string {
	return rapid.SampledFrom([]string{"r1", "r2", "r3"}).Draw(r, "run")
}

func (c *comparison) drawClaim(r *rapid.T) core.RecordClaim {
	return core.RecordClaim{
		Run: c.run(r), Over: rapid.Bool().Draw(r, "over"), MaxSilent: rapid.IntRange(1, 3).Draw(r, "most"),
		Fingerprint: rapid.SampledFrom([]string{onePrint, onePrint, onePrint, otherPrint}).Draw(r, "print"),
		TTL:         time.Duration(rapid.IntRange(40, 90).Draw(r, "ttl")) * time.Second,
	}
}

func (c *comparison) drawEnd(r *rapid.T) core.RecordEnd {
	e := keepOf(c.run(r))
	e.Outcome = rapid.SampledFrom([]string{"keep", "forget", "leave", "void"}).Draw(r, "outcome")
	if rapid.IntRange(0, 3).Draw(r, "found") == 0 {
		e.Answer = []byte("found out")
	}
	return e
}

// granted checks the token of a grant.
func (c *comparison) granted(r *rapid.T, id string, token int64, was bool) {
	if was != (token == c.tokens[id]) || !was && token <= c.last {
		r.Fatalf("the token of %s is %d, it had %d, the last one was %d", id, token, c.tokens[id], c.last)
	}
	c.tokens[id], c.last = token, max(c.last, token)
}

func (c *comparison) claim(r *rapid.T) {
	id, claim := c.id(r), c.drawClaim(r)
	op := c.d.Claims(id, claim)
	op.QueueTokens = 0
	got, err := script.AcquireAnswer(c.d.Send(op), "")
	if err != nil {
		r.Fatal(err)
	}
	want, was, code := script.Settled, c.m.isHeld(id), 0
	if !c.m.isSettled(&claim) {
		want = c.m.acquire(id)
	}
	switch {
	case got.Outcome != want:
		r.Fatalf("claim of %s for %s: %+v, want %v", id, claim.Run, got, want)
	case want == script.Settled:
		c.shown(r, got.Record)
	case want == script.Held:
		c.granted(r, id, got.Grant.Token, was)
		code = c.m.begin(id, got.Grant.Token, &claim)
		if got.Grant.Opened != (code == 1) || got.Grant.Earlier != c.m.rec.earlier || got.Grant.RecordToken != c.m.rec.token {
			r.Fatalf("claim of %s for %s: %+v, want %d: %+v", id, claim.Run, got.Grant, code, c.m.rec)
		}
	}
}

// shown compares a record in an answer.
func (c *comparison) shown(r *rapid.T, got *core.Record) {
	want := c.m.record()
	states := map[string]core.RecordState{"": core.NoRecord, "open": core.RecordOpen, "done": core.RecordDone}
	if got.State != states[want.state] || got.Run != want.run || got.Token != want.token || got.Fingerprint != want.print ||
		got.Earlier != want.earlier || got.Silent != want.silent || got.Returned != want.returned || string(got.Answer) != want.answer {
		r.Fatalf("the record is shown as %+v, want %+v", got, want)
	}
}

func (c *comparison) begin(r *rapid.T) {
	id, claim := c.id(r), c.drawClaim(r)
	token := c.tokens[rapid.SampledFrom([]string{id, id, c.id(r)}).Draw(r, "token of")]
	rec, outcome := c.d.BeginRecord(id, token, claim)
	want := script.NotHeld
	if c.m.isHeld(id) {
		want = [...]script.Outcome{script.Done, script.Done, script.Over}[c.m.begin(id, token, &claim)]
	}
	if outcome != want {
		r.Fatalf("begin of %s for %s: %v, want %v", id, claim.Run, outcome, want)
	}
	if want == script.Done {
		c.shown(r, rec)
	}
}

func (c *comparison) lock(r *rapid.T) {
	id, was := c.id(r), false
	was = c.m.isHeld(id)
	got := c.d.Acquire(scripttest.Acquire{ID: id, Mode: core.Fair, Try: true})
	if want := c.m.acquire(id); got.Outcome != want {
		r.Fatalf("lock of %s: %+v, want %v", id, got, want)
	}
	if got.Outcome == script.Held {
		c.granted(r, id, got.Grant.Token, was)
	}
}

func (c *comparison) release(r *rapid.T) {
	id := c.id(r)
	if got := c.d.Release(id); (got == script.Done) != c.m.release(id) {
		r.Fatalf("release of %s: %v", id, got)
	}
}

func (c *comparison) releaseRecord(r *rapid.T) {
	id, end := c.id(r), c.drawEnd(r)
	ok, released := c.d.ReleaseRecord(id, end)
	if ok != c.m.end(&end, id, 0) || (released == script.Done) != c.m.release(id) {
		r.Fatalf("release of %s with %s of %s: %v, %v", id, end.Outcome, end.Run, ok, released)
	}
}

func (c *comparison) end(r *rapid.T) {
	end := c.drawEnd(r)
	if ok := c.d.EndRecord(end); ok != c.m.end(&end, "", 0) {
		r.Fatalf("%s of %s: %v", end.Outcome, end.Run, ok)
	}
}

func (c *comparison) cancel(r *rapid.T) {
	id, run := c.id(r), c.run(r)
	begun := rapid.SampledFrom([]int64{0, 0, c.tokens[id], c.m.record().token}).Draw(r, "begun")
	c.d.CancelBegun(id, run, begun)
	c.m.end(&core.RecordEnd{Run: run, Outcome: "void"}, id, begun)
	c.m.release(id)
	c.m.ended[id] = c.m.now + script.DoneTTL
}

func (c *comparison) time(r *rapid.T) {
	if c.later == nil {
		c.d.Redis.Del(c.d.Context(), c.d.Keys.Holder())
		c.m.holder, c.m.holds = "", 0
		return
	}
	by := time.Duration(rapid.IntRange(1, 50).Draw(r, "seconds"))*time.Second + 10*time.Millisecond // a lease may last 1 ms longer
	c.later(by)
	c.m.now += by
}

func (c *comparison) check(r *rapid.T) {
	if got, want := storedFields(c.d), c.m.fields(); !maps.Equal(got, want) {
		r.Fatalf("the record is\n%v, want\n%v", got, want)
	}
	if ttl := c.d.Redis.PTTL(c.d.Context(), c.d.Keys.Record()).Val(); c.later != nil && c.m.fields() != nil && ttl != c.m.lifetime-c.m.now {
		r.Fatalf("the record expires in %v, want %v", ttl, c.m.lifetime-c.m.now)
	}
	id, err := c.d.Redis.HGet(c.d.Context(), c.d.Keys.Holder(), "id").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		r.Fatal(err)
	}
	if held := c.m.now < c.m.holds; held && id != c.m.holder || !held && id != "" {
		r.Fatalf("%q has the lock, want %q", id, c.m.holder)
	}
}
