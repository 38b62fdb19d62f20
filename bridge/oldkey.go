package bridge

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// ValuePrefix begins the value of each old key that a bridge has taken; for Redisson, the field.
const ValuePrefix = "lockmw:"

// An oldLock is the old keys of one hold.
type oldLock struct {
	lib    *library
	keys   []*oldKey
	quorum int // how many of them a hold needs
}

// An oldKey is one key on one server.
type oldKey struct {
	rdb      redis.Scripter
	name     string
	value    string        // unique: only this value is renewed or deleted
	taking   chan struct{} // holds a value while a take is in flight, which a release must not overtake
	released bool          // since it was taken: a release was answered, or may be executed without an answer
}

// newOldLock returns the old keys of a lock, which are not taken yet.
func newOldLock(lib *library, servers []redis.Scripter, key string) *oldLock {
	o := &oldLock{lib: lib}
	for _, rdb := range servers {
		for _, name := range lib.keys(key) {
			o.keys = append(o.keys, &oldKey{rdb: rdb, name: name, value: newValue(), taking: make(chan struct{}, 1)})
		}
	}
	o.quorum = len(o.keys)/2 + 1
	return o
}

func newValue() string { return ValuePrefix + rand.Text() }

// err returns the error that names the old key.
func (o *oldLock) err() *OldKeyError { return &OldKeyError{Library: o.lib.name, Key: o.keys[0].name} }

// An answer is the result of a script on one old key.
type answer struct {
	n   int64
	err error
}

// run runs a script on the key, with its value and a duration as arguments. It returns when ctx ends, while the command may still
// be in flight. answered is called when it no longer is; it may be nil.
func (k *oldKey) run(ctx context.Context, rdb redis.Scripter, s *redis.Script, d time.Duration, answered func()) answer {
	value, result := k.value, make(chan answer, 1)
	go func() {
		// A command whose context ends would leave its connection behind, and the server could execute it after the next one.
		n, err := s.Run(context.WithoutCancel(ctx), rdb, []string{k.name}, value, transport.RoundUp(d)).Int64()
		if answered != nil {
			answered()
		}
		result <- answer{n, err}
	}()
	select {
	case a := <-result:
		return a
	case <-ctx.Done():
		return answer{err: noAnswer(ctx)}
	}
}

// awaitTake returns when no take is in flight. done lets the next one begin.
func (k *oldKey) awaitTake(ctx context.Context) (done func(), err error) {
	select {
	case k.taking <- struct{}{}:
		return func() { <-k.taking }, nil
	case <-ctx.Done():
		return nil, noAnswer(ctx)
	}
}

// take takes the key. A release of an earlier try to take several keys may still be executed, so it gets another value.
func (k *oldKey) take(ctx context.Context, s *redis.Script, lease time.Duration) answer {
	done, err := k.awaitTake(ctx)
	if err != nil {
		return answer{err: err}
	}
	if k.released {
		k.value, k.released = newValue(), false
	}
	return k.run(ctx, k.rdb, s, lease, done)
}

// release ends the hold of the key, once: a repetition of a release that may have been executed succeeds. go-redis must not
// repeat it by itself, since the second answer is that the key is gone, or that the next holder has it.
func (k *oldKey) release(ctx context.Context, s *redis.Script, linger time.Duration) answer {
	done, err := k.awaitTake(ctx)
	if err != nil {
		return answer{err: err}
	}
	done()
	a := k.run(ctx, transport.WithoutRepeats(k.rdb), s, linger, nil)
	switch {
	case a.err == nil && (a.n == 1 || k.released):
		k.released = true
		a.n = 1
	case transport.MayHaveRun(a.err):
		k.released = true
	}
	return a
}

// noAnswer is the error of a command that was not answered when ctx ended.
func noAnswer(ctx context.Context) error { return &unansweredError{context.Cause(ctx)} }

type unansweredError struct{ cause error }

func (*unansweredError) Error() string   { return "it has not answered yet" }
func (e *unansweredError) Unwrap() error { return e.cause }

// A tally counts the answers of the old keys.
type tally struct {
	yes     int
	foreign int           // keys with another value
	gone    int           // keys that do not exist
	left    time.Duration // until the last foreign key expires; 0: unknown
	err     error         // of a key without an answer
}

// When a majority of the keys has answered, the others still have stragglers for that, or only aftermath if they change nothing.
const stragglers, aftermath = 100 * time.Millisecond, 10 * time.Millisecond

// each asks all keys. count adds an answer without an error to the tally.
func (o *oldLock) each(ctx context.Context, ask func(ctx context.Context, k *oldKey) answer, count func(*tally, int64)) (t tally) {
	if len(o.keys) == 1 {
		t.add(ask(ctx, o.keys[0]), count)
		return t
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, len(o.keys))
	for _, k := range o.keys {
		go func() { answers <- ask(ctx, k) }()
	}
	var late *time.Timer
	for range o.keys {
		t.add(<-answers, count)
		switch {
		case late != nil:
		case o.isHeld(t) || o.isLost(t):
			late = time.AfterFunc(aftermath, cancel)
		case t.answered() >= o.quorum:
			late = time.AfterFunc(stragglers, cancel)
		}
	}
	if late != nil {
		late.Stop()
	}
	return t
}

// answered returns how many keys have answered.
func (t *tally) answered() int { return t.yes + t.foreign + t.gone }

func (t *tally) add(a answer, count func(*tally, int64)) {
	if a.err != nil {
		t.err = a.err
		return
	}
	count(t, a.n)
}

// take takes the old keys.
func (o *oldLock) take(ctx context.Context, lease time.Duration) tally {
	return o.each(ctx, func(ctx context.Context, k *oldKey) answer { return k.take(ctx, o.lib.scripts.take, lease) }, func(t *tally, n int64) {
		if n == 0 {
			t.yes++
			return
		}
		t.foreign++
		t.left = max(t.left, time.Duration(n)*time.Millisecond)
	})
}

// renew renews the leases of the old keys.
func (o *oldLock) renew(ctx context.Context, lease time.Duration) tally {
	return o.each(ctx, func(ctx context.Context, k *oldKey) answer { return k.run(ctx, k.rdb, o.lib.scripts.renew, lease, nil) }, countOwn)
}

// release deletes the old keys, or keeps them for linger.
func (o *oldLock) release(ctx context.Context, linger time.Duration) tally {
	return o.each(ctx, func(ctx context.Context, k *oldKey) answer { return k.release(ctx, o.lib.scripts.release, linger) }, countOwn)
}

func countOwn(t *tally, n int64) {
	switch n {
	case 1:
		t.yes++
	case 0:
		t.gone++
	default:
		t.foreign++
	}
}

// isHeld reports whether enough old keys have the value.
func (o *oldLock) isHeld(t tally) bool { return t.yes >= o.quorum }

// isLost reports whether too few old keys can have the value.
func (o *oldLock) isLost(t tally) bool { return len(o.keys)-t.foreign-t.gone < o.quorum }

// holders describes the holder of an old key, of which only the rest of its lease is known.
func (t tally) holders() []core.Holder {
	if t.left == 0 {
		return nil
	}
	return []core.Holder{{TTL: t.left}}
}
