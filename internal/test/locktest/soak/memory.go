package soak

import (
	"fmt"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// memories is what is taken up, second by second. Of the children only the first one is looked at: it
// is never killed. Safe for concurrent use.
type memories struct {
	mu  sync.Mutex
	all [memoryKinds]series
}

const (
	childHeap = iota
	childGoroutines
	serverMemory
	testHeap
	memoryKinds
)

// memoryAllowed is what may come on top of a quarter more: for goroutines a number, else bytes.
var memoryAllowed = [memoryKinds]struct {
	name string
	more float64
}{
	{"heap of a child", 1 << 20},
	{"goroutines of a child", 30},
	{"memory of the server", 2 << 20},
	{"heap of the test", 2 << 20},
}

// A series is samples in the order in which they were taken.
type series []float64

func (m *memories) add(kind int, v float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[kind] = append(m.all[kind], v)
}

// child notes what a child takes up.
func (m *memories) child(n int, heap uint64, goroutines int) {
	if n == 0 {
		m.add(childHeap, float64(heap))
		m.add(childGoroutines, float64(goroutines))
	}
}

var usedMemory = regexp.MustCompile(`(?m)^used_memory:(\d+)`)

// sample notes what the server and the test itself take up.
func (m *memories) sample(s *soak) {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	m.add(testHeap, float64(stats.HeapAlloc))
	if s.faults.paused {
		return
	}
	info, err := s.e.Server.Admin.Info(s.e.Ctx, "memory").Result()
	if found := usedMemory.FindStringSubmatch(info); err == nil && found != nil {
		used, _ := strconv.ParseFloat(found[1], 64) // digits only
		m.add(serverMemory, used)
	}
}

// quarters returns the medians of the second and of the last quarter of a series: in the first one
// everything is still growing to its size.
func (s series) quarters() (before, after float64) {
	n := len(s)
	if n < 4 {
		return math.NaN(), math.NaN()
	}
	median := func(part series) float64 {
		part = slices.Clone(part)
		slices.Sort(part)
		return part[len(part)/2]
	}
	return median(s[n/4 : n/2]), median(s[n-n/4:])
}

// enoughSamples make a trend: the server remembers ids that are over for a minute.
const enoughSamples = 240

// growth says what has grown over the run.
func (m *memories) growth() (violations []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind, allowed := range memoryAllowed {
		s := m.all[kind]
		before, after := s.quarters()
		if len(s) >= enoughSamples && after > 1.25*before+allowed.more {
			violations = append(violations, fmt.Sprintf("%s: grew from %.0f to %.0f", allowed.name, before, after))
		}
	}
	return violations
}

func (m *memories) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var parts []string
	for kind, allowed := range memoryAllowed {
		before, after := m.all[kind].quarters()
		parts = append(parts, fmt.Sprintf("%s %.0f, then %.0f", allowed.name, before, after))
	}
	return strings.Join(parts, "; ")
}
