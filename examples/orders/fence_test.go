package main

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/lockmw/go/examples/orders/internal/books"
)

// The statement is run by the database, for holds with a token and for those that failed open, whose token is 0.
func TestTheFenceRefusesStaleWrites(t *testing.T) {
	const fresh = 1795358195100824 // a token
	for name, writes := range map[string][]struct {
		token, seen int64 // seen is the fence that was read with the data; -1: the current fence
		refused     bool
	}{
		"a hold, twice":                               {{fresh, -1, false}, {fresh, -1, false}},
		"one hold after another":                      {{fresh, -1, false}, {fresh + 1, -1, false}},
		"a hold that was lost":                        {{fresh + 1, -1, false}, {fresh, -1, true}},
		"a hold that was lost writes in between":      {{fresh, 0, false}, {fresh + 1, 0, true}, {fresh + 1, fresh, false}},
		"holds that all have the same token":          {{1, 0, false}, {1, 0, false}},
		"without a lock, one after another":           {{0, -1, false}, {0, -1, false}},
		"without a lock, after a hold":                {{fresh, -1, false}, {0, -1, false}},
		"without a lock, both have read 0":            {{0, 0, false}, {0, 0, true}},
		"without a lock, a hold has written":          {{fresh, -1, false}, {fresh + 7, -1, false}, {0, fresh, true}},
		"a hold that another overtook without a lock": {{fresh, -1, false}, {0, -1, false}, {fresh, fresh, true}},
		"the next hold after that":                    {{fresh, -1, false}, {0, -1, false}, {fresh + 2, -1, false}},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := books.Open(t.Context(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			const stock = 10
			if err := b.Offer(t.Context(), []string{"item-1"}, stock); err != nil {
				t.Fatal(err)
			}
			left := stock
			for i, w := range writes {
				_, now, err := b.Stock(t.Context(), "item-1")
				if err != nil {
					t.Fatal(err)
				}
				if w.seen < 0 {
					w.seen = now
				}
				err = b.Change(t.Context(), func(tx *sql.Tx) error {
					return books.Fenced(tx.ExecContext(t.Context(), takeOne, "item-1", w.token, w.seen))
				})
				if refused := errors.Is(err, books.ErrFenced); refused != w.refused || err != nil && !refused {
					t.Errorf("write %d: %v, want refused: %t", i+1, err, w.refused)
				}
				if err == nil {
					left--
				}
			}
			if n, _, err := b.Stock(t.Context(), "item-1"); n != left || err != nil {
				t.Errorf("%d are left, %v, want %d", n, err, left)
			}
		})
	}
}
