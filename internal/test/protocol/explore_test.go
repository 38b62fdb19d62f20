package protocol

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/lockmw/go/internal/test/states"
)

// A search visits all states of a system, breadth first. It recognises visited states by a 64-bit hash: the chance that two of
// ten million states share one is 3 in a million. The hash is seeded, so a breach that one execution misses is found by the
// next.
type search struct {
	*system
	most    int  // states to visit at most
	cut     bool // there are more
	seed    maphash.Seed
	index   map[uint64]uint32 // of hashes, in the order of visits
	hashes  []uint64
	parents []uint32
	edges   edges // sure moves
	good    []bool
}

// edges are lists of targets, one for each state in the order of visits.
type edges struct {
	first   []uint32
	targets []uint32
}

func (y *system) newSearch() *search {
	h := &search{system: y, most: states.Limit(), seed: maphash.MakeSeed(), index: make(map[uint64]uint32)}
	if *contenders != "" {
		h.most = math.MaxInt
	}
	return h
}

func (h *search) hash(s *state) uint64 { return maphash.Comparable(h.seed, *s) }

// visit adds a canonical state, unless it was visited before.
func (h *search) visit(s *state, parent int) (i int, fresh bool) {
	sum := h.hash(s)
	if i, ok := h.index[sum]; ok {
		return int(i), false
	}
	i = len(h.hashes)
	h.index[sum] = uint32(i)
	h.hashes = append(h.hashes, sum)
	h.parents = append(h.parents, uint32(parent))
	h.good = append(h.good, s.isOver())
	return i, true
}

// run visits states until none is left, or until one breaks a promise. It returns the index of that state and the breach; -1 if
// no state breaks one, or if there are too many states.
func (h *search) run(wrong promise) (i int, what string) {
	s := h.start()
	h.canonical(&s)
	h.visit(&s, 0)
	e := &expander{system: h.system}
	level := []state{s}
	for len(level) > 0 {
		var next []state
		for l := range level {
			if h.cut = i == h.most; h.cut {
				return -1, ""
			}
			h.edges.first = append(h.edges.first, uint32(len(h.edges.targets)))
			steps := e.expand(&level[l])
			for k := range steps {
				to := &steps[k].state
				h.canonical(to)
				j, fresh := h.visit(to, i)
				if fresh {
					if what = wrong(h.system, to); what != "" {
						return j, what
					}
					next = append(next, *to)
				}
				if steps[k].move.kind == sure {
					h.edges.targets = append(h.edges.targets, uint32(j))
				}
			}
			i++
		}
		level = next
	}
	h.edges.first = append(h.edges.first, uint32(len(h.edges.targets)))
	return -1, ""
}

// stuck returns the nearest state from which no sure moves lead to the end of all calls, or -1. It needs all states.
func (h *search) stuck() int {
	if h.cut {
		return -1
	}
	for changed := true; changed; {
		changed = false
		for i := len(h.good) - 1; i >= 0; i-- {
			if h.good[i] {
				continue
			}
			targets := h.edges.targets[h.edges.first[i]:h.edges.first[i+1]]
			if slices.ContainsFunc(targets, func(t uint32) bool { return h.good[t] }) {
				h.good[i], changed = true, true
			}
		}
	}
	return slices.Index(h.good, false)
}

// found makes the result of the search: state i breaks a promise; -1: none does.
func (h *search) found(i int, broken string) states.Found {
	f := states.Found{States: len(h.hashes), Cut: h.cut}
	if i >= 0 {
		f.Broken, f.Path = broken, h.trace(i)
	}
	return f
}

// trace lists the moves that lead to state i, with the names of processes and ids at that time.
func (h *search) trace(i int) string {
	var path []int
	for ; i > 0; i = int(h.parents[i]) {
		path = append(path, i)
	}
	var b strings.Builder
	s := h.start()
	e := &expander{system: h.system}
	for _, i := range slices.Backward(path) {
		steps := e.expand(&s)
		k := slices.IndexFunc(steps, func(t step) bool {
			h.canonical(&t.state)
			return h.hash(&t.state) == h.hashes[i]
		})
		if k < 0 {
			panic("equal states have different moves: canonical is wrong")
		}
		s = steps[k].state
		h.tidy(&s)
		fmt.Fprintf(&b, "%-47v %v\n", steps[k].move, &s)
	}
	return b.String()
}
