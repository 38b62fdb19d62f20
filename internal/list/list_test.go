package list_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lockmw/go/internal/list"
)

type element struct {
	list.Links[*element]
	n int
}

// Whatever is added and removed, the list has what a slice has.
func TestAListHasWhatASliceHas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l list.List[*element]
		var want []*element
		check := func(t *rapid.T) {
			if got := slices.Collect(l.All()); !slices.Equal(got, want) || l.IsEmpty() != (len(want) == 0) {
				t.Fatalf("empty: %t, %v, want %v", l.IsEmpty(), got, want)
			}
			if first := l.First(); len(want) > 0 && first != want[0] || len(want) == 0 && first != nil {
				t.Fatalf("the first is %v, of %v", first, want)
			}
			if len(want) > 0 && list.From(want[0]) != l {
				t.Fatalf("from %v on there is %v, not %v", want[0], list.From(want[0]), l)
			}
		}
		push := func(e *element) {
			l.Push(e)
			want = append(want, e)
		}
		t.Repeat(map[string]func(*rapid.T){
			"":     check,
			"push": func(*rapid.T) { push(&element{n: len(want)}) },
			"remove": func(t *rapid.T) {
				if len(want) == 0 {
					t.Skip("empty")
				}
				i := rapid.IntRange(0, len(want)-1).Draw(t, "index")
				e := want[i]
				l.Remove(e)
				want = slices.Delete(want, i, i+1)
				if rapid.Bool().Draw(t, "again") {
					push(e)
				}
			},
			"remove while iterating": func(t *rapid.T) {
				odd := func(e *element) bool { return e.n%2 == 1 }
				for e := range l.All() {
					if odd(e) {
						l.Remove(e)
					}
				}
				want = slices.DeleteFunc(want, odd)
			},
		})
	})
}

func TestPushingAndRemovingAllocatesNothing(t *testing.T) {
	var l list.List[*element]
	a, b := &element{}, &element{}
	if n := testing.AllocsPerRun(100, func() {
		l.Push(a)
		l.Push(b)
		l.Remove(a)
		l.Remove(b)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
