package env

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A Model is what a lock should be. Random operations are done with it and with a lock, and compared.
type Model interface {
	// Actions returns the operations by their names; "" is the check after each.
	Actions() map[string]func(*rapid.T)
	// PassTime is one more of them, in a bubble.
	PassTime(t *rapid.T)
	// End leaves nothing behind for the next round: rapid may have ended this one anywhere.
	End()
}

// Compare does rounds of random operations of three clients, each with a new model.
func (e *Env) Compare(newModel func(t *rapid.T, clients []*Client) Model) {
	clients := e.Clients(3)
	if e.Config.Bubble {
		e.Pass(rand.N(time.Hour)) // rapid's seed is the clock, which a bubble sets to the same time
	}
	// A bubble has no deadline, and panics when it is asked for it: that method is hidden.
	rapid.Check(struct{ testing.TB }{e.TB}, func(t *rapid.T) {
		m := newModel(t, clients)
		defer m.End()
		actions := m.Actions()
		if e.Config.Bubble {
			actions["pass time"] = m.PassTime
		}
		t.Repeat(actions)
	})
}

// Draw draws an index, which reads better than what it stands for.
func Draw[T any](t *rapid.T, what string, from []T) T {
	return from[rapid.IntRange(0, len(from)-1).Draw(t, what)]
}

// Between draws a duration from the one up to the other.
func Between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)))
}
