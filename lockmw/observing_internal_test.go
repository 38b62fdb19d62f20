package lockmw

import (
	"context"
	"log/slog"
	"slices"
	"testing"
)

// listening returns an observer whose callbacks report their names.
func listening(hears func(callback string)) *Observer {
	return &Observer{
		Start: func(ctx context.Context, _ Attempt) context.Context {
			hears("Start")
			return ctx
		},
		Contended: func(context.Context, Attempt, Contention) { hears("Contended") },
		Waiting:   func(context.Context, Attempt, Contention) { hears("Waiting") },
		Acquired: func(ctx context.Context, _ Attempt, _ Acquisition) context.Context {
			hears("Acquired")
			return ctx
		},
		Failed:   func(context.Context, Attempt, error) { hears("Failed") },
		Renewed:  func(context.Context, Attempt, error) { hears("Renewed") },
		Lost:     func(context.Context, Attempt, error) { hears("Lost") },
		Released: func(context.Context, Attempt, Release) { hears("Released") },
	}
}

func TestEachObserverIsToldEverything(t *testing.T) {
	var heard [3][]string
	var p Policy
	for i := range heard {
		p.Observers = append(p.Observers, listening(func(callback string) { heard[i] = append(heard[i], callback) }))
	}
	w := newWatch(t.Context(), Attempt{Policy: p}, slog.Default())
	w.contended(Contention{})
	w.waiting(Contention{})
	w.acquired(Acquisition{})
	w.renewed(nil)
	w.lost(ErrLost)
	w.released(Release{})
	w.failed(ErrBusy)
	want := []string{"Start", "Contended", "Waiting", "Acquired", "Renewed", "Lost", "Released", "Failed"}
	for i, got := range heard {
		if !slices.Equal(got, want) {
			t.Errorf("observer %d of %d was told %q, want %q", i+1, len(heard), got, want)
		}
	}
}

func TestMovesAreToldIfAnyObserverWantsThem(t *testing.T) {
	deaf, listens := &Observer{}, listening(func(string) {})
	for _, tt := range []struct {
		observers []*Observer
		want      bool
	}{
		{[]*Observer{deaf, deaf}, false},
		{[]*Observer{listens, deaf}, true},
		{[]*Observer{deaf, listens}, true},
	} {
		w := newWatch(t.Context(), Attempt{Policy: Policy{Observers: tt.observers}}, slog.Default())
		if got := w.wantsMoves(); got != tt.want {
			t.Errorf("%d observers: moves are wanted: %v, want %v", len(tt.observers), got, tt.want)
		}
	}
}
