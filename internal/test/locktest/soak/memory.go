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

// memories are samples of memory use, taken every second. Of the children, only the first one is sampled: it is never killed.
// They are safe for concurrent use.
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

// memoryAllowed is the allowed growth on top of 25 %, in goroutines or bytes.
var memoryAllowed = [memoryKinds]struct {
	name string
	more float64
}{
	{"heap of a child", 1 << 20},
	{"goroutines of a child", 30},
	{"memory of the server", 2 << 20},
	{"heap of the test", 2 << 20},
}

// A series is a sequence of samples.
type series []float64

func (m *memories) add(kind int, v float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[kind] = append(m.all[kind], v)
}

// child records the memory use of child n.
func (m *memories) child(n int, heap uint64, goroutines int) {
	if n == 0 {
		m.add(childHeap, float64(heap))
		m.add(childGoroutines, float64(goroutines))
	}
}

var usedMemory = regexp.MustCompile(`(?m)^used_memory:(\d+)`)

// sample records the memory use of the server and of the test.
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

// quarters returns the medians of the second and the last quarter of a series. In the first quarter everything still grows to
// its normal size.
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

// enoughSamples make a trend. Done marks last for a minute.
const enoughSamples = 240

// growth reports what has grown during the run.
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
