package lockmw_test

import (
	"context"
	"slices"
	"testing"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// listening returns an observer whose callbacks report their names.
func listening(hears func(callback string)) *lockmw.Observer {
	return &lockmw.Observer{
		Start: func(ctx context.Context, _ lockmw.Attempt) context.Context {
			hears("Start")
			return ctx
		},
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { hears("Contended") },
		Waiting:   func(context.Context, lockmw.Attempt, lockmw.Contention) { hears("Waiting") },
		Acquired: func(ctx context.Context, _ lockmw.Attempt, _ lockmw.Acquisition) context.Context {
			hears("Acquired")
			return ctx
		},
		Failed:   func(context.Context, lockmw.Attempt, error) { hears("Failed") },
		Renewed:  func(context.Context, lockmw.Attempt, error) { hears("Renewed") },
		Lost:     func(context.Context, lockmw.Attempt, error) { hears("Lost") },
		Released: func(context.Context, lockmw.Attempt, lockmw.Release) { hears("Released") },
	}
}

func TestEachObserverIsToldEverything(t *testing.T) {
	var heard [3][]string
	var opts []lockmw.ClientOption
	for i := range heard {
		opts = append(opts, lockmw.WithObserver(listening(func(callback string) { heard[i] = append(heard[i], callback) })))
	}
	n := &nodes{meanwhile: func(e core.Events) {
		e.Contended(core.Wait{})
		e.Waiting(core.Wait{})
	}}
	l := overLocks(t, n, core.Kind{}, opts...)
	_, hold := usertest.Lock(t, t.Context(), l, "k")
	events := n.requests[0].Events
	events.Renewed(nil)
	events.Lost(lockmw.ErrLost)
	_ = hold.Unlock()
	n.fail = core.ErrBusy
	if _, _, err := l.Lock(t.Context(), "k"); err == nil {
		t.Fatal("a lock that is busy was taken")
	}
	want := []string{
		"Start", "Contended", "Waiting", "Acquired", "Renewed", "Lost", "Released",
		"Start", "Contended", "Waiting", "Failed",
	}
	for i, got := range heard {
		if !slices.Equal(got, want) {
			t.Errorf("observer %d of %d was told %q, want %q", i+1, len(heard), got, want)
		}
	}
}

func TestMovesAreToldIfAnyObserverWantsThem(t *testing.T) {
	deaf, listens := &lockmw.Observer{}, listening(func(string) {})
	for _, tt := range []struct {
		observers []*lockmw.Observer
		want      bool
	}{
		{[]*lockmw.Observer{deaf, deaf}, false},
		{[]*lockmw.Observer{listens, deaf}, true},
		{[]*lockmw.Observer{deaf, listens}, true},
	} {
		var opts []lockmw.ClientOption
		for _, o := range tt.observers {
			opts = append(opts, lockmw.WithObserver(o))
		}
		n := &nodes{}
		l := overLocks(t, n, core.Kind{}, opts...)
		if _, _, err := l.Lock(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if got := n.requests[0].WantsMoves; got != tt.want {
			t.Errorf("%d observers: moves are wanted: %v, want %v", len(tt.observers), got, tt.want)
		}
	}
}
