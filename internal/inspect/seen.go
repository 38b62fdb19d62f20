package inspect

import "hash/maphash"

// A seen remembers the last keys, by a hash of each. Two of 100,000 keys are taken for one in one of 10^9 scans.
type seen struct {
	limit      int // of young and of old
	seed       maphash.Seed
	young, old map[uint64]struct{}
}

// maxSeen is how many keys are remembered at least, and half of how many at most: some 10 MB then. SCAN repeats itself when a
// hash table shrinks, and then soon.
const maxSeen = 1 << 18

func newSeen(limit int) *seen {
	return &seen{limit: limit, seed: maphash.MakeSeed(), young: make(map[uint64]struct{})}
}

// has reports whether a key is remembered.
func (s *seen) has(key string) bool {
	h := maphash.String(s.seed, key)
	_, young := s.young[h]
	_, old := s.old[h]
	return young || old
}

// add remembers a key, and reports whether it is new.
func (s *seen) add(key string) bool {
	if s.has(key) {
		return false
	}
	if len(s.young) >= s.limit {
		s.young, s.old = make(map[uint64]struct{}), s.young
	}
	s.young[maphash.String(s.seed, key)] = struct{}{}
	return true
}
