package engine

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
)

// The promise is 8,192 keys, however often each of them is released.
func TestTheLast8192KeysThatWereReleasedAreKnown(t *testing.T) {
	rdb := redis.NewClient(new(redis.Options)) // which is sent nothing
	t.Cleanup(func() { _ = rdb.Close() })
	e := newEngine(t, rdb)
	const keys, releases = 8192, 3
	for n := range keys * releases {
		e.noteEnded(lockKey{key: fmt.Sprintf("key:%d", n%keys)}, e.idStem.New(uint64(n)).String())
	}
	ended := e.endedLately()
	if len(ended) != keys {
		t.Errorf("%d keys are known, want %d", len(ended), keys)
	}
	for _, one := range ended {
		if one.upTo < keys*(releases-1) {
			t.Errorf("%s: only ids up to %d", one.key, one.upTo)
		}
	}
}

func TestKeysAreDroppedWhenTheirReleasesCanNoLongerBeLost(t *testing.T) {
	var r released
	k := func(n int) lockKey { return lockKey{key: fmt.Sprint(n)} }
	now := clock.Now()
	r.note(k(1), 1, now.Add(-releaseLost))
	r.note(k(2), 2, now.Add(1-releaseLost))
	r.note(k(1), 3, now.Add(2-releaseLost))
	r.note(k(3), 4, now.Add(-releaseLost))
	r.note(k(3), 2, now.Add(3-releaseLost))
	r.dropOld(now)
	if len(r.keys) != 3 || r.keys[k(1)].upTo != 3 || r.keys[k(3)].upTo != 4 {
		t.Errorf("%v", r.keys)
	}
	r.dropOld(now + 2)
	if len(r.keys) != 1 || r.keys[k(3)] == nil {
		t.Errorf("%v", r.keys)
	}
	r.dropOld(now + 3)
	if r.keys != nil || !r.order.IsEmpty() {
		t.Errorf("%v", r.keys)
	}
}

func TestTheMemoryOfReleasesIsBounded(t *testing.T) {
	var r released
	for n := range 10 * maxReleased {
		r.note(lockKey{key: fmt.Sprint(n)}, uint64(n), clock.Instant(n))
	}
	if len(r.keys) != maxReleased {
		t.Errorf("%d keys are known, want %d", len(r.keys), maxReleased)
	}
	for _, one := range r.keys {
		if one.upTo < 9*maxReleased {
			t.Errorf("%d is known, and later ones are not", one.upTo)
		}
	}
}
