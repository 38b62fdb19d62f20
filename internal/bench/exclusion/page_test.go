package exclusion_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/lockmw/go/internal/bench/exclusion"
)

// open returns two mappings of one file, as in two processes.
func open(t *testing.T, keys int) (a, b *exclusion.Page) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page")
	if err := exclusion.Create(path, keys); err != nil {
		t.Fatal(err)
	}
	pages := make([]*exclusion.Page, 2)
	for i := range pages {
		p, err := exclusion.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		pages[i] = p
	}
	return pages[0], pages[1]
}

func TestOverlapIsSeenFromAnotherMapping(t *testing.T) {
	a, b := open(t, 3)
	a.Enter(1)
	b.Enter(1)
	if a.Violations() != 0 || b.Violations() != 1 {
		t.Errorf("violations: %d and %d, want 0 and 1", a.Violations(), b.Violations())
	}
}

func TestTurnsAndOtherKeysDoNotOverlap(t *testing.T) {
	a, b := open(t, 3)
	a.Enter(0)
	b.Enter(1)
	a.Enter(2)
	a.Leave(0)
	b.Enter(0)
	b.Leave(1)
	a.Enter(1)
	if a.Violations() != 0 || b.Violations() != 0 {
		t.Errorf("violations: %d and %d", a.Violations(), b.Violations())
	}
}

func TestReadersOverlapAndExcludeWriters(t *testing.T) {
	a, b := open(t, 2)
	a.EnterShared(0)
	b.EnterShared(0)
	a.EnterShared(0)
	if a.Violations() != 0 || b.Violations() != 0 {
		t.Errorf("readers together: %d and %d violations", a.Violations(), b.Violations())
	}
	b.Enter(0)
	if b.Violations() != 1 {
		t.Errorf("a writer next to readers: %d violations", b.Violations())
	}
	b.Leave(0)
	for _, p := range []*exclusion.Page{a, b, a} {
		p.LeaveShared(0)
	}
	b.Enter(0)
	if b.Violations() != 1 {
		t.Error("a writer after the readers is a violation")
	}
	a.EnterShared(0)
	if a.Violations() != 1 {
		t.Errorf("a reader next to a writer: %d violations", a.Violations())
	}
	a.LeaveShared(0)
	b.Leave(0)
	a.EnterShared(0)
	if a.Violations() != 1 {
		t.Error("a reader after the writer is a violation")
	}
}

func TestTurnsAreCountedAndTimed(t *testing.T) {
	a, b := open(t, 2)
	start := time.Now()
	a.Turn(1, 0)
	for i, turn := range []struct {
		page    *exclusion.Page
		process int
		other   bool
	}{{b, 3, true}, {b, 3, false}, {a, 0, true}} {
		since, other := turn.page.Turn(1, turn.process)
		if since < 0 || since > time.Since(start)+time.Second || other != turn.other {
			t.Errorf("turn %d: %v after the last one, of another process: %v", i, since, other)
		}
	}
	if a.Turns(1) != 4 || b.Turns(1) != 4 || a.Turns(0) != 0 {
		t.Errorf("%d turns, %d, and %d of the other key", a.Turns(1), b.Turns(1), a.Turns(0))
	}
}
