package env

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// A Tally counts events by name. It is safe for concurrent use.
type Tally struct {
	mu sync.Mutex
	of map[string]int
}

// NewTally returns an empty Tally.
func NewTally() *Tally { return &Tally{of: make(map[string]int)} }

// Add adds counts by name.
func (t *Tally) Add(counts map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, n := range counts {
		t.of[name] += n
	}
}

func (t *Tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(t.of)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, t.of[name]))
	}
	return strings.Join(parts, ", ")
}
