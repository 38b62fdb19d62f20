package redlock_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/race"
)

// A node that answers an acquire after the release would refuse the next one of the same process, which costs more than to
// wait for it, and marks the holder.
func TestNoNodeRefusesTheNextCallOfTheOnlyCaller(t *testing.T) {
	race.FindsNothing(t)
	all := servers(t, 5)
	l := locker(t, all)
	const pairs = 200
	for range pairs {
		_, hold := lock(t, l, "item")
		unlock(t, hold)
	}
	refused := 0
	for _, s := range all {
		stats := s.NewClient(t).Info(t.Context(), "commandstats").Val()
		if _, found, ok := strings.Cut(stats, "cmdstat_hmget:calls="); ok { // which no grant of a free lock calls
			digits, _, _ := strings.Cut(found, ",")
			n, err := strconv.Atoi(digits)
			if err != nil {
				t.Fatal(err)
			}
			refused += n
		}
	}
	if refused > pairs/5 { // a node may be later than what is waited for
		t.Errorf("the nodes have looked %d times at who has the lock in %d pairs", refused, pairs)
	}
}
