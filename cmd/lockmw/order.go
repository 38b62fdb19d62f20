package main

import (
	"cmp"
	"slices"
	"strings"
)

// An order is one way to sort locks.
type order[R any] struct {
	name    string
	compare func(a, b R) int // negative: a comes first
}

var orders = []order[*lockRecord]{
	{"wait", func(a, b *lockRecord) int {
		return cmp.Or(cmp.Compare(b.longest(), a.longest()), cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.held(), a.held()), cmp.Compare(a.Key, b.Key))
	}},
	{"waiters", func(a, b *lockRecord) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.longest(), a.longest()), cmp.Compare(a.Key, b.Key))
	}},
	{"held", func(a, b *lockRecord) int {
		return cmp.Or(cmp.Compare(b.held(), a.held()), cmp.Compare(a.Key, b.Key))
	}},
	{"key", func(a, b *lockRecord) int { return cmp.Compare(a.Key, b.Key) }},
}

// unsorted is the order in which a scan finds locks.
const unsorted = "none"

func orderNamed(name string) (func(a, b *lockRecord) int, error) {
	names := []string{}
	for _, o := range orders {
		if o.name == name {
			return o.compare, nil
		}
		names = append(names, o.name)
	}
	if name == unsorted {
		return nil, nil
	}
	return nil, usage("--sort %s: must be one of %s and %s", name, strings.Join(names, ", "), unsorted)
}

// A best keeps the first locks of an order, up to most of them.
type best[T any] struct {
	compare func(a, b T) int
	most    int // 0: all
	left    int // number of dropped locks
	records []T
}

func (b *best[T]) add(r T) {
	b.records = append(b.records, r)
	if b.most > 0 && len(b.records) >= 2*b.most { // sorting every time would be slow
		b.sorted()
	}
}

// sorted returns the kept locks in order.
func (b *best[T]) sorted() []T {
	slices.SortFunc(b.records, b.compare)
	if more := len(b.records) - b.most; b.most > 0 && more > 0 {
		b.records = slices.Delete(b.records, b.most, len(b.records))
		b.left += more
	}
	return b.records
}
