package loglimit

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Some kinds contain the ID of a run, so their number has no end.
func TestOldKindsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Limit
		for i := range 10 * manyKinds {
			if _, ok := l.Allow(fmt.Sprint("run ", i)); !ok {
				t.Fatalf("the first line of kind %d is left out", i)
			}
			time.Sleep(2 * Interval / manyKinds)
			if len(l.kinds) > 2*manyKinds {
				t.Fatalf("%d kinds are kept", len(l.kinds))
			}
		}
		if _, ok := l.Allow(fmt.Sprint("run ", 10*manyKinds-1)); ok {
			t.Error("the second line of a kind is written")
		}
	})
}
