package inspect

import (
	"strconv"
	"testing"
)

func TestSeenStoresKeysInBoundedMemory(t *testing.T) {
	const limit = 100
	s := newSeen(limit)
	for i := range 10 * limit {
		if !s.add(strconv.Itoa(i)) {
			t.Fatalf("key %d was seen before", i)
		}
		if last := strconv.Itoa(max(i-limit+1, 0)); s.add(last) {
			t.Fatalf("after key %d, key %s is missing", i, last)
		}
		if n := len(s.young) + len(s.old); n > 2*limit {
			t.Fatalf("%d keys are stored", n)
		}
		if i >= 2*limit && s.has("0") {
			t.Fatalf("after key %d, the first key is still stored", i)
		}
	}
}

// A key with a holder and a queue comes once even if not all keys can be stored.
func TestAKeyComesOnceAmongMoreThanSeenStores(t *testing.T) {
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
