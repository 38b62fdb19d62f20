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
	lib   *library
	value string // unique: only this value is renewed or deleted
	keys  []*oldKey
}

// An oldKey runs its commands one after the other, so that a release never overtakes a take.
type oldKey struct {
	rdb  redis.Scripter
	name string
	turn chan struct{} // holds a value while a command is in flight
}

// newOldLock returns the old keys of a lock, which are not taken yet.
func newOldLock(lib *library, rdb redis.Scripter, key string) *oldLock {
	o := &oldLock{lib: lib, value: ValuePrefix + rand.Text()}
	for _, name := range lib.keys(key) {
		o.keys = append(o.keys, &oldKey{rdb: rdb, name: name, turn: make(chan struct{}, 1)})
	}
	return o
}

// err returns the error that names the old key.
func (o *oldLock) err() *OldKeyError { return &OldKeyError{Library: o.lib.name, Key: o.keys[0].name} }

// An answer is the result of a script on one old key.
type answer struct {
	n   int64
	err error
}

// run runs a script on the key. It returns when ctx ends. Then the command may still be in flight, and the next one waits for it.
func (k *oldKey) run(ctx context.Context, s *redis.Script, args ...any) answer {
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return answer{err: noAnswer(ctx)}
	}
	result := make(chan answer, 1)
	go func() {
		// A command whose context ends would leave its connection behind, and the server could execute it after the next one.
		n, err := s.Run(context.WithoutCancel(ctx), k.rdb, []string{k.name}, args...).Int64()
		<-k.turn
		result <- answer{n, err}
	}()
	select {
	case a := <-result:
		return a
	case <-ctx.Done():
		return answer{err: noAnswer(ctx)}
	}
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

// stragglers is how long a hold with enough keys waits for the answers of the others.
const stragglers = 100 * time.Millisecond

// each runs a script on all keys. count adds an answer without an error to the tally.
func (o *oldLock) each(ctx context.Context, s *redis.Script, count func(*tally, int64), args ...any) (t tally) {
	if len(o.keys) == 1 {
		t.add(o.keys[0].run(ctx, s, args...), count)
		return t
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, len(o.keys))
	for _, k := range o.keys {
		go func() { answers <- k.run(ctx, s, args...) }()
	}
	var late *time.Timer
	for range o.keys {
		t.add(<-answers, count)
		if t.yes >= o.lib.quorum && late == nil {
			late = time.AfterFunc(stragglers, cancel)
		}
	}
	if late != nil {
		late.Stop()
	}
	return t
}

func (t *tally) add(a answer, count func(*tally, int64)) {
	if a.err != nil {
		t.err = a.err
		return
	}
	count(t, a.n)
}

// take takes the old keys. A lock is taken if enough keys have its value and none has another one.
func (o *oldLock) take(ctx context.Context, lease time.Duration) tally {
	return o.each(ctx, o.lib.scripts.take, func(t *tally, n int64) {
		if n == 0 {
			t.yes++
			return
		}
		t.foreign++
		t.left = max(t.left, time.Duration(n)*time.Millisecond)
	}, o.value, transport.RoundUp(lease))
}

// renew renews the leases of the old keys.
func (o *oldLock) renew(ctx context.Context, lease time.Duration) tally {
	return o.each(ctx, o.lib.scripts.renew, countOwn, o.value, transport.RoundUp(lease))
}

// release deletes the old keys, or keeps them for linger.
func (o *oldLock) release(ctx context.Context, linger time.Duration) tally {
	return o.each(ctx, o.lib.scripts.release, countOwn, o.value, transport.RoundUp(linger))
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
func (o *oldLock) isHeld(t tally) bool { return t.yes >= o.lib.quorum }

// isLost reports whether too few old keys can have the value.
func (o *oldLock) isLost(t tally) bool { return len(o.keys)-t.foreign-t.gone < o.lib.quorum }

// holders describes the holder of an old key, of which only the rest of its lease is known.
func (t tally) holders() []core.Holder {
	if t.left == 0 {
		return nil
	}
	return []core.Holder{{TTL: t.left}}
}
