package tracing_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

const (
	valid     = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// The two processes share nothing but what is stored with the lock.
func TestWaitLinksToTheHolderInAnotherProcess(t *testing.T) {
	ours, theirs := newTelemetry(t), newTelemetry(t)
	local := lockmw.NewLocal()
	_, hold := usertest.Lock(t, t.Context(), local, "item:7", lockmw.WithObserver(theirs.observer))
	contended, waits := usertest.OnContended(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, hold := usertest.Lock(t, t.Context(), local, "item:7", lockmw.WithObserver(ours.observer), contended)
		usertest.Unlock(t, hold)
	}()
	waits()
	usertest.Unlock(t, hold)
	<-done

	want := theirs.span("acquire_lock item").SpanContext()
	links := ours.span("acquire_lock item").Links()
	if len(links) != 1 || !links[0].SpanContext.Equal(want.WithRemote(true)) {
		t.Errorf("links are %v, want one to %v", links, want)
	}
	if n := len(ours.span("hold_lock item").Links()) + len(theirs.span("acquire_lock item").Links()); n != 0 {
		t.Errorf("%d links elsewhere", n)
	}
}

func TestOfManyHoldersEightAreLinked(t *testing.T) {
	holders := make([]string, 10)
	for i := range holders {
		holders[i] = fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-b7ad6b71692033%02x-01", i)
	}
	links := contend(newTelemetry(t), holders...).Links()
	if len(links) != 8 {
		t.Errorf("%d links, want 8", len(links))
	}
	for i, l := range links {
		if got := l.SpanContext.SpanID().String(); got != holders[i][36:52] {
			t.Errorf("link %d is to %s, want the next holder", i+1, got)
		}
	}
}

// contend makes an attempt that meets holders with these traceparents, first when it begins to wait
// and again when it fails.
func contend(m *telemetry, traceParents ...string) sdktrace.ReadOnlySpan {
	s := newScript(m)
	holders := make([]lockmw.Holder, len(traceParents))
	for i, p := range traceParents {
		holders[i].TraceParent = p
	}
	s.Contended(lockmw.Contention{Holders: holders})
	s.Failed(&lockmw.Error{Err: lockmw.ErrBusy, Waited: 1, Holders: holders})
	return m.span("acquire_lock item")
}

func TestTheSameHolderIsLinkedOnce(t *testing.T) {
	if links := contend(newTelemetry(t), valid, valid).Links(); len(links) != 1 {
		t.Errorf("%d links, want 1", len(links))
	}
}

func TestHoldersWithoutTraceDoNotUseUpLinks(t *testing.T) {
	holders := append(make([]string, 100), valid)
	if links := contend(newTelemetry(t), holders...).Links(); len(links) != 1 {
		t.Errorf("%d links, want 1", len(links))
	}
}

func TestASpanNeverLinksToItself(t *testing.T) {
	m := newTelemetry(t)
	s := newScript(m)
	own := []lockmw.Holder{{TraceParent: m.observer.TraceParent(s.Ctx)}}
	s.Contended(lockmw.Contention{Holders: own})
	s.Failed(&lockmw.Error{Err: lockmw.ErrBusy, Holders: own})
	if links := m.span("acquire_lock item").Links(); len(links) != 0 {
		t.Errorf("links: %v", links)
	}
}

func TestWhatIsNoSampledSpanIsNotLinked(t *testing.T) {
	for _, p := range []string{"", unsampled, "garbage", strings.Repeat(valid, 100_000)} {
		s := contend(newTelemetry(t), p)
		if id, ok := attributesOf(s)["distributed_lock.holder.trace_id"]; ok || len(s.Links()) != 0 {
			t.Errorf("%.60q: links %v, holder.trace_id %v", p, s.Links(), id)
		}
	}
}

func FuzzHolderTraceParent(f *testing.F) {
	f.Add(valid)
	f.Add(unsampled)
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-fF")
	f.Add(valid[:53] + "fd")
	f.Fuzz(func(t *testing.T, p string) {
		links := contend(newTelemetry(t), p).Links()
		carrier := propagation.MapCarrier{"traceparent": knownFlags(p)}
		want := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
		linkable := len(p) == 55 && strings.HasPrefix(p, "00-") && want.IsValid() && want.IsSampled()
		if linkable != (len(links) == 1) || linkable && !links[0].SpanContext.Equal(want) {
			t.Errorf("%q makes links %v, the propagator says %v", p, links, want)
		}
	})
}

// knownFlags clears the flags that version 00 does not define: OpenTelemetry's propagator refuses them.
func knownFlags(p string) string {
	if len(p) != 55 || strings.Trim(p[53:], "0123456789abcdef") != "" {
		return p
	}
	flags, err := strconv.ParseUint(p[53:], 16, 8)
	if err != nil {
		return p
	}
	return fmt.Sprintf("%s%02x", p[:53], flags&3)
}

func TestTraceParentNamesTheAcquireSpan(t *testing.T) {
	m := newTelemetry(t)
	s := newScript(m)
	p := m.observer.TraceParent(s.Ctx)
	s.acquire(lockmw.Acquisition{})
	if len(p) != 55 {
		t.Errorf("%q has %d bytes, want 55", p, len(p))
	}
	carrier := propagation.MapCarrier{"traceparent": p}
	got := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(t.Context(), carrier))
	if want := m.span("acquire_lock item").SpanContext(); !got.Equal(want.WithRemote(true)) {
		t.Errorf("%q is not %v", p, want)
	}
}

func TestWithoutHolderLinks(t *testing.T) {
	s := contend(newTelemetry(t, tracing.WithHolderLinks(false)), valid)
	if len(s.Links()) != 0 || attributesOf(s)["distributed_lock.holder.trace_id"] != nil {
		t.Errorf("links %v, attributes %v", s.Links(), s.Attributes())
	}
}

// A lock that is passed on within a process is not written to Redis again.
func TestWaitersOfTheHoldersProcessLinkToTheHolderOthersToTheHoldInRedis(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		m := newTelemetry(t)
		here, elsewhere := usertest.Client(t, s, lockmw.WithObserver(m.observer)), usertest.Client(t, s, lockmw.WithObserver(m.observer))
		_, before := usertest.Lock(t, t.Context(), here, "item:7", lockmw.WithName("before"))
		held, next := make(chan *lockmw.Hold), make(chan struct{})
		for _, name := range []string{"first", "second"} {
			go func() {
				_, hold, err := here.Lock(t.Context(), "item:7", lockmw.WithName(name))
				if err != nil {
					t.Error(err)
				}
				held <- hold
				<-next
				usertest.Unlock(t, hold)
			}()
			synctest.Wait() // until it waits, so that the next is behind it
		}
		time.Sleep(time.Second) // a lease has as many tokens for passing on as microseconds have passed
		usertest.Unlock(t, before)
		first := <-held
		time.Sleep(time.Second)
		next <- struct{}{}
		if second := <-held; second.Token() != first.Token()+1 {
			t.Errorf("token %d was followed by %d: the lock was not passed on here", first.Token(), second.Token())
		}
		usertest.Refused(t, t.Context(), here, "item:7", lockmw.WithName("here"), lockmw.WithWait(0))
		usertest.Refused(t, t.Context(), elsewhere, "item:7", lockmw.WithName("elsewhere"), lockmw.WithWait(0))
		next <- struct{}{}
		synctest.Wait() // for Unlock to return

		for name, holders := range map[string][]string{
			"first": {"before"}, "second": {"before"}, "here": {"second"}, "elsewhere": {"first"},
		} {
			var want, got []string
			for _, h := range holders {
				want = append(want, m.span("acquire_lock "+h).SpanContext().SpanID().String())
			}
			for _, l := range m.span("acquire_lock " + name).Links() {
				got = append(got, l.SpanContext.SpanID().String())
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s links to the spans %v, want %v, of %v", name, got, want, holders)
			}
		}
		m.allEnded()
		m.countersAtZero()
	})
}
