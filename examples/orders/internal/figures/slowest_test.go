package figures

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/lockmw"
)

// An attempt calls an observer as a lock does.
type attempt struct {
	*lockmw.Observer
	lockmw.Attempt
	ctx context.Context
}

// start starts the attempt whose acquire_lock span has the number n.
func start(s *Slowest, actor string, n uint64) *attempt { return startAt(s, "item:7", actor, n) }

func startAt(s *Slowest, key, actor string, n uint64) *attempt {
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: spanID(n)})
	a := &attempt{Observer: s.Observer(), Attempt: lockmw.Attempt{Key: key}}
	a.ctx = a.Start(trace.ContextWithSpanContext(WithActor(context.Background(), actor), span), a.Attempt)
	return a
}

func spanID(n uint64) (id trace.SpanID) {
	for i := range id {
		id[i] = byte(n >> (56 - 8*i))
	}
	return id
}

func holderOf(n uint64) lockmw.Holder {
	return lockmw.Holder{TraceParent: fmt.Sprintf("00-%v-%v-01", trace.TraceID{1}, spanID(n))}
}

func (a *attempt) contend(holder lockmw.Holder) {
	a.Contended(a.ctx, a.Attempt, lockmw.Contention{Holders: []lockmw.Holder{holder}})
}

func (a *attempt) acquire(waited time.Duration) {
	a.ctx = a.Acquired(a.ctx, a.Attempt, lockmw.Acquisition{Contended: waited > 0, Waited: waited})
}

func (a *attempt) release() { a.Released(a.ctx, a.Attempt, lockmw.Release{}) }

func TestAHolderIsNamedEvenAfterItsRelease(t *testing.T) {
	s := NewSlowest(5)
	ann, bob := start(s, "ann", 1), start(s, "bob", 2)
	ann.acquire(0)
	ann.release()
	bob.contend(holderOf(1)) // reported later than the release
	bob.acquire(time.Second)
	waits := s.List()
	if len(waits) != 1 || waits[0].Actor != "bob" || waits[0].HeldBy != "ann" {
		t.Errorf("waits are %+v, want one of bob for ann", waits)
	}
}

func TestOldHoldersAreDropped(t *testing.T) {
	s := NewSlowest(5)
	for n := range uint64(3 * retired) {
		a := start(s, "somebody", n+1)
		a.acquire(0)
		a.release()
	}
	if n := len(s.actors); n > retired {
		t.Errorf("%d actors are kept, want at most %d", n, retired)
	}
}

func TestTheLongestWaitsAreListed(t *testing.T) {
	s := NewSlowest(2)
	for n, waited := range []time.Duration{2, 4, 0, 1, 3} {
		a := start(s, fmt.Sprint(int64(waited)), uint64(n+1))
		a.acquire(waited)
		a.release()
	}
	waits := s.List()
	if len(waits) != 2 || waits[0].Actor != "4" || waits[1].Actor != "3" {
		t.Errorf("waits are %+v, want those of 4 and 3", waits)
	}
}

func TestWaitsForTheFirstAnswerAreNotListed(t *testing.T) {
	s := NewSlowest(2)
	again := startAt(s, "idem:5f3a", "ann, again", 1)
	again.acquire(time.Second)
	if waits := s.List(); len(waits) > 0 {
		t.Errorf("waits are %+v, want none", waits)
	}
}
