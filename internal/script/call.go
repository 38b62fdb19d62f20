package script

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
)

// A Call is one run of a script: a command EVALSHA.
type Call struct {
	// Limit is how long the call may take once it is sent; 0: as long as its context.
	Limit time.Duration
	// Timeout is after which a batch with the call is abandoned. Only RunBatch regards it.
	Timeout time.Duration
	// Late, if set, gets each answer after the first, which a call has that was sent again beside itself: see resend.go.
	Late func(*Reply)
	// AfterBatch, which done may set, is called when all calls of a batch are done; may be nil.
	AfterBatch func()

	ctx    context.Context // the caller's: go-redis begins no retry after its end
	script *Script
	route  *route // nil: it was sent together with others
	args   []any  // of the command, with its name
	done   func(*Reply)
	sent   clock.Instant // before the first byte was sent
	copies counter       // of how often it was written and may have done something; nil: nobody counts
	before int32         // copies when it was sent last
	open   *open         // nil: it is to no Cluster, or was sent together with others
	votes  bool          // it is for a lock that is one of several, and as plain as those are
	queues bool          // it wants a ticket of its own if the lock is not free, and is plain but for its mode and trace
	few    error         // why what it wrote does not count yet; nil: it does
	moved  bool          // few, and its slot has left the replicas of its former master

	// What most calls need is allocated with them: room for the arguments, the context of a lane, and the first answer.
	room     [firstKey + 11]any
	ifQueued queueArg
	laneCtx  callContext
	answered atomic.Bool
	first    Reply
}

// firstKey is where the first key stands in the arguments of EVALSHA.
const firstKey = 3

// newCall prepares a run of s with that many keys and arguments at most. The goroutine that gets the
// answer calls done, once.
func newCall(ctx context.Context, s *Script, size int, done func(*Reply)) *Call {
	k := &Call{ctx: ctx, script: s, done: done}
	if k.args = k.room[:firstKey]; firstKey+size > len(k.room) {
		k.args = make([]any, firstKey, firstKey+size)
	}
	k.args[0], k.args[1], k.args[2] = "evalsha", s.sha, 0
	return k
}

// addKey adds a key; keys come before the other arguments.
func (k *Call) addKey(key any) {
	k.args = append(k.args, key)
	k.args[2] = len(k.args) - firstKey
}

func (k *Call) addKeys(keys [5]any) {
	k.args = append(k.args, keys[:]...)
	k.args[2] = len(k.args) - firstKey
}

// add adds arguments.
func (k *Call) add(args ...any) { k.args = append(k.args, args...) }

// key returns the first key.
func (k *Call) key() string {
	key, _ := k.args[firstKey].(string)
	return key
}

func (k *Call) command(ctx context.Context) *redis.Cmd {
	args := k.args
	if q := k.script.grants; q != nil {
		args = append(slices.Clip(args), q.trusted(k.key()))
	}
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(firstKey)
	return cmd
}

// reply is the answer to k.
func (k *Call) reply(value any, err error) *Reply {
	r := &k.first
	if k.answered.Swap(true) {
		r = new(Reply)
	}
	r.set(value, err, k.sent)
	r.Few, r.Moved = k.few, k.moved
	return r
}

// isWhole reports whether k sends the script's text.
func (k *Call) isWhole() bool { return k.args[0] == "eval" }

// sendWhole makes k send the script's text, which the server does not know yet.
func (k *Call) sendWhole() {
	k.args = slices.Clone(k.args) // which go out once more at the same time: see resend.go
	k.args[0], k.args[1] = "eval", k.script.Source
}

// markSent notes that k is sent now, and when it was sent first.
func (k *Call) markSent(now clock.Instant) {
	if k.sent.IsZero() {
		k.sent = now
	}
	if k.copies != nil {
		k.before = k.copies.Load()
	}
}

// didNothing notes that the last copy did nothing, if one was written since k was sent last: go-redis may have got the
// answer from a connection before it wrote anything.
func (k *Call) didNothing() {
	if k.copies != nil && k.copies.Load() > k.before {
		k.copies.Add(-1)
	}
}
