package env

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A Model is a specification of a lock. Random operations run on both the model and a lock, and their results are compared.
type Model interface {
	// Actions returns the operations by name; "" is the check after each operation.
	Actions() map[string]func(*rapid.T)
	// PassTime is an additional operation in bubbles.
	PassTime(t *rapid.T)
	// End cleans up for the next round; rapid may have stopped this one at any operation.
	End()
}

// Compare runs rounds of random operations of three clients, each round with a new model.
func (e *Env) Compare(newModel func(t *rapid.T, clients []*Client) Model) {
	clients := e.Clients(3)
	if e.Config.Bubble {
		e.Pass(rand.N(time.Hour)) // rapid seeds itself from the clock, which is the same in every bubble
	}
	// Hide Deadline: a bubble has no deadline and panics when asked for it.
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

// Draw draws an element by its index, which keeps rapid's log short.
func Draw[T any](t *rapid.T, what string, from []T) T {
	return from[rapid.IntRange(0, len(from)-1).Draw(t, what)]
}

// Between returns a random duration in [from, to).
func Between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)))
}
