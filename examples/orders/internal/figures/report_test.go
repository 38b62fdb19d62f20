package figures

import (
	"errors"
	"testing"
)

func TestEveryBrokenPromiseCounts(t *testing.T) {
	for name, r := range map[string]Result{
		"oversold":      {Oversold: 1},
		"ordered twice": {DuplicateOrders: 1},
		"lost":          {LostOrders: 1},
		"shipped twice": {ShippedTwice: 1},
		"failed":        {failed: errors.New("500 Internal Server Error")},
	} {
		if !r.Broken() {
			t.Errorf("%s: not counted as broken", name)
		}
	}
	if r := (Result{Requests: 3, Accepted: 1, Refused: 2, Shipped: 1}); r.Broken() {
		t.Error("a good sale counts as broken")
	}
}
