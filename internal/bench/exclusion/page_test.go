package exclusion_test

import (
	"path/filepath"
	"testing"

	"github.com/lockmw/go/internal/bench/exclusion"
)

// open returns two mappings of one file, as two processes have them.
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

func TestTurnsAndOtherKeysAreNoOverlap(t *testing.T) {
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
