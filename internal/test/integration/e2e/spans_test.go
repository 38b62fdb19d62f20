package e2e_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/integration/collector"
	"github.com/lockmw/go/tracing"
)

// A shown is a call as the exported spans show it.
type shown struct {
	call
	caller, acquire, hold, work collector.Span // hold and work are zero if the call has failed
}

// assemble finds all spans of each call by its trace.
func (s *stage) assemble(spans []collector.Span) map[string]shown {
	s.t.Helper()
	byTrace := make(map[string][]collector.Span)
	for _, span := range spans {
		byTrace[span.ID.Trace] = append(byTrace[span.ID.Trace], span)
	}
	all := make(map[string]shown)
	for _, c := range s.calls {
		trace := s.traceOf[c.ID]
		if got, want := len(byTrace[trace]), s.traces[trace]; got != want {
			s.t.Fatalf("%s: %d spans in its trace, want %d: %v", c.ID, got, want, byTrace[trace])
		}
		v := shown{call: c}
		for _, span := range byTrace[trace] {
			switch span.Name {
			case "call " + c.ID:
				v.caller = span
			case "acquire_lock " + c.nameOf():
				v.acquire = span
			case "hold_lock " + c.nameOf():
				v.hold = span
			case "work":
				v.work = span
			default:
				s.t.Errorf("%s: a span %q in its trace", c.ID, span.Name)
			}
		}
		all[c.ID] = v
	}
	return all
}

func (c call) nameOf() string {
	if c.Name == "" {
		return "item"
	}
	return c.Name
}

func (c call) modeOf() string {
	if c.Kind == "plain" {
		return "exclusive"
	}
	return c.Kind
}

func (c call) outcomeOf() string { return orDefault(c.outcome, "acquired") }
func (c call) endingOf() string  { return orDefault(c.ending, "released") }

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// checkTraces checks the spans completely. key is how they have to show a key.
func (s *stage) checkTraces(spans []collector.Span, key func(string) string) {
	s.t.Helper()
	all := s.assemble(spans)
	for _, c := range s.calls {
		s.t.Run(c.ID, func(t *testing.T) {
			v := all[c.ID]
			checkShape(t, v, fmt.Sprint("process ", c.by))
			checkTimes(t, v, all)
			checkLinks(t, v, all)
			checkStatus(t, v)
			s.checkAttributes(t, v, key)
		})
	}
}

// checkShape checks the parents of spans, and everything that is the same for all calls.
func checkShape(t *testing.T, v shown, process string) {
	ours := collector.Scope{Name: tracing.ScopeName, Version: tracing.Version()}
	for _, c := range []struct {
		span   collector.Span
		parent collector.ID
		scope  collector.Scope
	}{
		{v.caller, collector.ID{}, collector.Scope{Name: "test"}},
		{v.acquire, v.caller.ID, ours},
		{v.hold, v.caller.ID, ours},
		{v.work, v.hold.ID, collector.Scope{Name: "test"}},
	} {
		if c.span.Name == "" && v.outcome != "" {
			continue // there is no hold
		}
		if c.span.Parent != c.parent {
			t.Errorf("parent of %q is %v, want %v", c.span.Name, c.span.Parent, c.parent)
		}
		if c.span.Scope != c.scope {
			t.Errorf("scope of %q is %v, want %v", c.span.Name, c.span.Scope, c.scope)
		}
		if c.span.Kind != "internal" {
			t.Errorf("kind of %q is %s, want internal", c.span.Name, c.span.Kind)
		}
		if got := c.span.Resource["service.instance.id"]; got != process {
			t.Errorf("%q is of %v, want %s", c.span.Name, got, process)
		}
		if len(c.span.Events) != 0 {
			t.Errorf("%q has events %v", c.span.Name, c.span.Events)
		}
	}
	if v.outcome != "" && v.hold.Name != "" {
		t.Errorf("a call that has failed has a hold %v", v.hold)
	}
}

const attrToken = "distributed_lock.fencing_token"

// apart is how far the clocks of two spans may differ. A span ends at its start plus the time by the monotonic clock, and a
// thread may have been stopped between reading that clock and the time of day.
const apart = 5 * time.Millisecond

// checkTimes checks the order of spans. All clocks are those of one machine.
func checkTimes(t *testing.T, v shown, all map[string]shown) {
	within := func(what string, tolerance time.Duration, first, second time.Time) {
		t.Helper()
		if second.Before(first.Add(-tolerance)) {
			t.Errorf("%s: %v too early", what, first.Sub(second))
		}
	}
	inOrder := func(what string, first, second time.Time) {
		t.Helper()
		within(what, apart, first, second)
	}
	inOrder("acquire_lock starts in the caller's span", v.caller.Start, v.acquire.Start)
	within("acquire_lock ends after it starts", 0, v.acquire.Start, v.acquire.End)
	inOrder("acquire_lock ends in the caller's span", v.acquire.End, v.caller.End)
	if v.outcome != "" {
		return
	}
	within("hold_lock starts 1µs after acquire_lock ends", 0, v.acquire.End.Add(time.Microsecond), v.hold.Start)
	within("hold_lock ends after it starts", 0, v.hold.Start, v.hold.End)
	inOrder("hold_lock ends in the caller's span", v.hold.End, v.caller.End)
	inOrder("the work starts in hold_lock", v.hold.Start, v.work.Start)
	if v.ending == "" {
		inOrder("the work ends in hold_lock", v.work.End, v.hold.End)
	}
	// The holder's release ends when Redis has confirmed it, and the next holder may know of it before. So only the work must
	// not overlap.
	for _, id := range v.after {
		inOrder("acquire_lock ends after the work of "+id, all[id].work.End, v.acquire.End)
		inOrder("hold_lock starts after the work of "+id, all[id].work.End, v.hold.Start)
		before, after := all[id].acquire.Attributes[attrToken], v.acquire.Attributes[attrToken]
		b, _ := before.(int64)
		if a, _ := after.(int64); a < b || a == b && v.Kind != "read" {
			t.Errorf("token %d does not exceed token %d of %s", a, b, id)
		}
	}
}

// checkLinks checks that the call links to the acquire spans of the calls that blocked it.
func checkLinks(t *testing.T, v shown, all map[string]shown) {
	want := make(map[collector.ID]string)
	for _, id := range v.links {
		want[all[id].acquire.ID] = id
	}
	if count := min(len(want), orMost(v.most)); len(v.acquire.Links) != count {
		t.Errorf("%d links, want %d", len(v.acquire.Links), count)
	}
	for _, l := range v.acquire.Links {
		if _, ok := want[l.ID]; !ok {
			t.Errorf("a link to %v, which did not block the call or is linked twice", l.ID)
		}
		delete(want, l.ID)
	}
	for _, span := range []collector.Span{v.caller, v.hold, v.work} {
		if len(span.Links) != 0 {
			t.Errorf("%q has links %v", span.Name, span.Links)
		}
	}
}

func orMost(n int) int {
	if n == 0 {
		return 8
	}
	return n
}

func checkStatus(t *testing.T, v shown) {
	acquire, hold := "unset", "unset"
	switch {
	case v.err == "" || v.fine:
	case v.outcome != "":
		acquire = "error"
	default:
		hold = "error"
	}
	for _, c := range []struct {
		span collector.Span
		want string
	}{{v.caller, "unset"}, {v.acquire, acquire}, {v.hold, hold}, {v.work, "unset"}} {
		if c.span.Name == "" {
			continue
		}
		if got := c.span.Status; got.Code != c.want || (got.Message != "") != (c.want == "error") {
			t.Errorf("status of %q is %q, want %s", c.span.Name, got, c.want)
		}
	}
}

// checkAttributes checks all attributes of both spans.
func (s *stage) checkAttributes(t *testing.T, v shown, key func(string) string) {
	lease := v.Lease
	if lease == 0 {
		lease = 30 * time.Second
	}
	common := map[string]any{
		"distributed_lock.name":           v.nameOf(),
		"distributed_lock.mode":           v.modeOf(),
		"distributed_lock.operation":      "lock",
		"distributed_lock.key":            key(s.keyOf(v.call)),
		"distributed_lock.lease.duration": lease.Seconds(),
	}
	if v.Try {
		common["distributed_lock.operation"] = "try_lock"
	}
	if v.outcome == "" {
		common[attrToken] = v.acquire.Attributes[attrToken] // both spans have the same token
		if n, ok := common[attrToken].(int64); !ok || n <= 0 {
			t.Errorf("the token is %v", common[attrToken])
		}
	}
	acquire := maps.Clone(common)
	acquire["distributed_lock.outcome"] = v.outcomeOf()
	acquire["distributed_lock.contended"] = len(v.links) > 0
	if v.position > 0 {
		acquire["distributed_lock.queue.position"] = v.position
	}
	if len(v.acquire.Links) > 0 {
		acquire["distributed_lock.holder.trace_id"] = v.acquire.Links[0].ID.Trace
		acquire["distributed_lock.holder.span_id"] = v.acquire.Links[0].ID.Span
	}
	hold := common
	hold["distributed_lock.outcome"] = v.endingOf()
	const waiters = "distributed_lock.waiters_at_release"
	if n, ok := v.hold.Attributes[waiters]; v.ending == "" {
		hold[waiters] = v.waiters
	} else if ok { // the release was faster than the message of the loss
		hold[waiters] = n
	}
	switch {
	case v.outcome != "":
		acquire["error.type"] = v.err
	case v.err != "":
		hold["error.type"] = v.err
	}
	wantSame(t, v.acquire.Name, v.acquire.Attributes, acquire)
	if v.outcome == "" {
		wantSame(t, v.hold.Name, v.hold.Attributes, hold)
	}
}

func wantSame(t *testing.T, span string, got, want map[string]any) {
	t.Helper()
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if !reflect.DeepEqual(got[k], want[k]) {
			t.Errorf("%s: %s is %#v, want %#v", span, k, got[k], want[k])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[k]; !ok {
			t.Errorf("%s: %s is %#v, want none", span, k, got[k])
		}
	}
}
