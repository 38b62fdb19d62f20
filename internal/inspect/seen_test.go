package inspect

import (
	"strconv"
	"testing"
)

func TestKeysAreRememberedInBoundedMemory(t *testing.T) {
	const limit = 100
	s := newSeen(limit)
	for i := range 10 * limit {
		if !s.add(strconv.Itoa(i)) {
			t.Fatalf("key %d was seen before", i)
		}
		if last := strconv.Itoa(max(i-limit+1, 0)); s.add(last) {
			t.Fatalf("at key %d, key %s is forgotten", i, last)
		}
		if n := len(s.young) + len(s.old); n > 2*limit {
			t.Fatalf("%d keys are remembered", n)
		}
		if i >= 2*limit && s.has("0") {
			t.Fatalf("at key %d, the first one is not forgotten", i)
		}
	}
}

// When not all keys can be remembered, one that is held and waited for still comes once.
func TestAKeyComesOnceAmongMoreThanAreRemembered(t *testing.T) {
	onManyLocks(t, func(i *Inspector, keys map[string]int) {
		found := make(map[string]int)
		for s, err := range i.All(t.Context(), Scan{Share: 1, pageSize: 20, maxSeen: 3}) {
			if err != nil {
				t.Fatal(err)
			}
			found[s.Key]++
		}
		wantOnce(t, found, keys)
	})
}
