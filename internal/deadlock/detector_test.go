package deadlock_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/go/internal/deadlock"
)

// A pair is two waits in a cycle, as long as the key "b" is held.
type pair struct {
	*office
	one, two *deadlock.NestedWait
	reads    int                 // of the key "b"
	isFree   func(read int) bool // what the read of that number shows; nil: it is held
	pauses   []time.Duration     // before the next checks for one
}

func (o *office) cycle() *pair {
	p := &pair{office: o}
	p.one, p.two = o.wait("b", "a"), o.wait("a", "b")
	p.one.Wake = func(after time.Duration) { p.pauses = append(p.pauses, after) }
	o.views = func(ctx context.Context, keys []string) map[string]*deadlock.View {
		views := heldBy(ctx, keys)
		if views["b"] != nil {
			if p.reads++; p.isFree != nil && p.isFree(p.reads) {
				views["b"] = &deadlock.View{}
			}
		}
		return views
	}
	return p
}

func (p *pair) found() int { return len(p.one.Found) + len(p.two.Found) }

// Between the two collections the key is released, or only then acquired.
func TestADeadlockMustBeInBothCollections(t *testing.T) {
	for name, test := range map[string]struct {
		isFree func(read int) bool
		found  int
	}{
		"it is there":            {nil, 1},
		"it is over":             {func(read int) bool { return read == 2 }, 0},
		"it was not there first": {func(read int) bool { return read == 1 }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inOffice(t, func(o *office) {
				p := o.cycle()
				p.isFree = test.isFree
				o.Check(p.one)
				pass(time.Second)
				if p.found() != test.found {
					t.Errorf("%d waits are ended, want %d", p.found(), test.found)
				}
			})
			inOffice(t, func(o *office) {
				p := o.cycle()
				p.isFree = test.isFree
				for _, n := range []*deadlock.NestedWait{p.one, p.two} {
					n.Site = within{o}
				}
				p.one.CheckLocally()
				if p.found() != test.found {
					t.Errorf("%d waits within the process are ended, want %d", p.found(), test.found)
				}
			})
		})
	}
}

// Locks within the process have no inbox.
type within struct{ *office }

func (within) Inbox(string) string { return "" }

// It is soon checked once more, and then only as often as others.
func TestAChangedWaitIsCheckedOnceMore(t *testing.T) {
	inOffice(t, func(o *office) {
		p := o.cycle()
		p.isFree = func(read int) bool { return read%2 == 0 }
		for range 4 {
			o.Check(p.one)
			pass(time.Second)
		}
		const soon = 250 * time.Millisecond
		if want := []time.Duration{soon, deadlock.CheckInterval, soon, deadlock.CheckInterval}; !slices.Equal(p.pauses, want) {
			t.Errorf("it waits for %v, want %v", p.pauses, want)
		}
	})
}

// Other processes may only trigger checks of waits that detect deadlocks themselves, at the locks that they have reported.
func TestOtherProcessesTriggerChecksOnlyOfWaitsThatDetect(t *testing.T) {
	for name, test := range map[string]struct {
		edit  func(p *pair)
		found int
	}{
		"a call that checks":           {func(*pair) {}, 1},
		"a call that does not":         {func(p *pair) { p.one.Request.Detect = 0 }, 0},
		"a call that checks elsewhere": {func(p *pair) { p.one.Site = within{p.office} }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inOffice(t, func(o *office) {
				p := o.cycle()
				ids := slices.Sorted(maps.Keys(o.ask("a").Waits))
				test.edit(p)
				o.receive(mail{Check: ids[0]}, "") // one began first
				pass(time.Second)
				if p.found() != test.found {
					t.Errorf("%d waits are ended, want %d", p.found(), test.found)
				}
			})
		})
	}
}
