// Package list is a doubly linked list whose elements contain their own links. Adding and removing allocate nothing, and any
// element can be removed in constant time.
//
//	type waiter struct {
//		list.Links[*waiter]
//		…
//	}
//	var waiters list.List[*waiter]
package list

import "iter"

// Links are embedded in the elements of a List. An element can be in at most one list at a time.
type Links[E any] struct{ prev, next E }

func (l *Links[E]) links() *Links[E] { return l }

// An Element is a pointer to a struct that embeds Links.
type Element[E any] interface {
	comparable
	links() *Links[E]
}

// A List is a list of elements. Its zero value is empty and ready to use. It is not safe for concurrent use.
type List[E Element[E]] struct{ first, last E }

// IsEmpty reports whether there are no elements.
func (l *List[E]) IsEmpty() bool {
	var none E
	return l.first == none
}

// From returns the list whose first element is e.
func From[E Element[E]](e E) List[E] {
	var none E
	l := List[E]{first: e, last: e}
	for next := e.links().next; next != none; next = next.links().next {
		l.last = next
	}
	return l
}

// First returns the element that was added first, nil if there is none.
func (l *List[E]) First() E { return l.first }

// Push adds an element at the end.
func (l *List[E]) Push(e E) {
	var none E
	e.links().prev = l.last
	if l.last != none {
		l.last.links().next = e
	} else {
		l.first = e
	}
	l.last = e
}

// Remove takes an element out of the list. It must be in the list.
func (l *List[E]) Remove(e E) {
	var none E
	links := e.links()
	if links.prev != none {
		links.prev.links().next = links.next
	} else {
		l.first = links.next
	}
	if links.next != none {
		links.next.links().prev = links.prev
	} else {
		l.last = links.prev
	}
	links.prev, links.next = none, none
}

// All yields the elements in their order. The element that was just yielded may be removed during the iteration.
func (l *List[E]) All() iter.Seq[E] {
	return func(yield func(E) bool) {
		var none E
		for e := l.first; e != none; {
			next := e.links().next
			if !yield(e) {
				return
			}
			e = next
		}
	}
}
