package verify

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestABudgetBoundsTheShareOfTheServersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const cost = time.Millisecond
		b := newBudget(cost, 0.01)
		start, n := time.Now(), 0
		for time.Since(start) < 10*time.Second {
			if !b.wait(t.Context()) {
				t.Fatal("the budget has ended")
			}
			b.spend()
			n++
		}
		if n < 95 || n > 105 {
			t.Errorf("%d scripts of %v in 10 s, want 1 %% of the time", n, cost)
		}
		if got := b.spent(); got != n {
			t.Errorf("%d scripts are counted, want %d", got, n)
		}
		b.setCost(cost / 10)
		start, n = time.Now(), 0
		for ; time.Since(start) < 10*time.Second; n++ {
			b.wait(t.Context())
			b.spend()
		}
		if n < 950 || n > 1050 {
			t.Errorf("%d scripts after they became faster, want about 1000", n)
		}
	})
}

func TestAWaitForTheBudgetEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(time.Hour, 0.01)
		b.spend()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if b.wait(ctx) {
			t.Error("it did not wait")
		}
	})
}
