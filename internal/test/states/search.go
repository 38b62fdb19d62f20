package states

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// A Space is everything that can happen in a model.
type Space[S comparable, M any] struct {
	First S
	// Moves returns what can happen next. The steps are valid until the next call.
	Moves func(*S) []Step[S, M]
	// Line describes a step of a path.
	Line func(m M, from, to *S) string

	// All else is optional.

	Most      int           // states to visit, instead of Limit
	Tidy      func(*S)      // removes what can no longer have an effect
	Canonical func(*S)      // replaces all states that differ in names only by the same one; a path keeps the names
	Over      func(*S) bool // nothing is left to be done: an end
	Sure      func(M) bool  // happens eventually, if the state stays as it is
}

// A Step is a move, and the state that it leads to.
type Step[S comparable, M any] struct {
	Move M
	To   S
}

// Found is the result of a search.
type Found struct {
	States int    // states visited
	Cut    bool   // there are more than Limit
	Broken string // the promise that the last state breaks; empty: none is broken
	Path   string // the moves that lead to it, each on a line
}

// A search visits all states of a space, breadth first. It recognises visited states by a 64-bit hash: the chance that two of ten
// million states share one is 3 in a million. The hash is seeded, so a breach that one execution misses is found by the next.
type search[S comparable, M any] struct {
	Space[S, M]
	seed    maphash.Seed
	index   map[uint64]uint32 // of hashes, in the order of visits
	hashes  []uint64
	parents []uint32

	// Where sure moves lead to from each state, in the order of visits.
	first   []uint32
	targets []uint32
	over    []bool
}

// Search visits the first state and all states that moves lead to, until one breaks a promise, so the path to that state is the
// shortest. stuck, if it is not empty, is the promise that sure moves lead from each state to an end: see Over.
func (p Space[S, M]) Search(broken func(*S) string, stuck string) Found {
	h := &search[S, M]{Space: p, seed: maphash.MakeSeed(), index: make(map[uint64]uint32)}
	if h.Most == 0 {
		h.Most = Limit()
	}
	last, why, cut := h.run(broken, stuck != "")
	if stuck != "" && why == "" && !cut {
		if last = h.stuck(); last >= 0 {
			why = stuck
		}
	}
	found := Found{States: len(h.hashes), Cut: cut, Broken: why}
	if why != "" {
		found.Path = h.path(last)
	}
	return found
}

// simplify replaces a state by the one that stands for it.
func (h *search[S, M]) simplify(s *S) {
	if h.Tidy != nil {
		h.Tidy(s)
	}
	if h.Canonical != nil {
		h.Canonical(s)
	}
}

func (h *search[S, M]) hash(s *S) uint64 { return maphash.Comparable(h.seed, *s) }

// visit simplifies a state and adds it, unless it was visited before.
func (h *search[S, M]) visit(s *S, parent int) (i int, fresh bool) {
	h.simplify(s)
	sum := h.hash(s)
	if i, ok := h.index[sum]; ok {
		return int(i), false
	}
	i = len(h.hashes)
	h.index[sum] = uint32(i)
	h.hashes = append(h.hashes, sum)
	h.parents = append(h.parents, uint32(parent))
	if h.Over != nil {
		h.over = append(h.over, h.Over(s))
	}
	return i, true
}

// run visits states until none is left, until one breaks a promise, or until there are too many. It returns the number of the last
// one and its breach. edges says whether it notes where sure moves lead to.
func (h *search[S, M]) run(broken func(*S) string, edges bool) (last int, why string, cut bool) {
	s := h.First
	h.visit(&s, 0)
	if why := broken(&s); why != "" {
		return 0, why, false
	}
	i := 0
	for level := []S{s}; len(level) > 0; {
		var next []S
		for l := range level {
			if i == h.Most {
				return i, "", true
			}
			h.first = append(h.first, uint32(len(h.targets)))
			steps := h.Moves(&level[l])
			for k := range steps {
				to := &steps[k].To
				j, fresh := h.visit(to, i)
				if fresh {
					if why := broken(to); why != "" {
						return j, why, false
					}
					next = append(next, *to)
				}
				if edges && h.Sure(steps[k].Move) {
					h.targets = append(h.targets, uint32(j))
				}
			}
			i++
		}
		level = next
	}
	h.first = append(h.first, uint32(len(h.targets)))
	return i, "", false
}

// stuck returns the nearest state from which no sure moves lead to an end, or -1. It needs all states.
func (h *search[S, M]) stuck() int {
	for changed := true; changed; {
		changed = false
		for i := len(h.over) - 1; i >= 0; i-- {
			if h.over[i] {
				continue
			}
			targets := h.targets[h.first[i]:h.first[i+1]]
			if slices.ContainsFunc(targets, func(t uint32) bool { return h.over[t] }) {
				h.over[i], changed = true, true
			}
		}
	}
	return slices.Index(h.over, false)
}

// path lists the moves that lead to state i.
func (h *search[S, M]) path(i int) string {
	var path []int
	for ; i > 0; i = int(h.parents[i]) {
		path = append(path, i)
	}
	var b strings.Builder
	s := h.First
	for _, i := range slices.Backward(path) {
		steps := h.Moves(&s)
		k := slices.IndexFunc(steps, func(t Step[S, M]) bool {
			h.simplify(&t.To)
			return h.hash(&t.To) == h.hashes[i]
		})
		if k < 0 {
			panic("equal states have different moves: Canonical is wrong")
		}
		to := steps[k].To
		if h.Tidy != nil {
			h.Tidy(&to)
		}
		fmt.Fprintln(&b, h.Line(steps[k].Move, &s, &to))
		s = to
	}
	return strings.TrimSuffix(b.String(), "\n")
}
