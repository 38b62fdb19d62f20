package transport

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
)

// A Script is what a Call runs.
type Script struct {
	Source string // the text
	SHA    string // by which EVALSHA finds it

	NeedsReplicas bool  // on what it writes: replicas may have to acknowledge it (rule 21 of docs/protocol.md)
	Guard         Guard // decides which servers may run it; nil: all may, or it never grants anything

	sha any // SHA, as an argument of a command
}

// NewScript returns the script with that text.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source)) // as Redis names scripts
	s := &Script{Source: source, SHA: hex.EncodeToString(sum[:])}
	s.sha = s.SHA
	return s
}

// A Guard keeps servers that it does not trust from running a script. Each run carries what Trusted returns as its last argument.
// A script that finds no such server answers with an error that begins with UNTRUSTED, and has written nothing.
type Guard interface {
	// Trusted returns the name of the server that has a key; "" if that is not trusted.
	Trusted(key string) string
	// Examine finds out whether to trust the server of a key, which has refused a run that carried a name. It returns nil if the
	// run is to be repeated.
	Examine(ctx context.Context, key string, carried any) error
}

// A Call is one run of a script: a command EVALSHA.
type Call struct {
	// Limit is how long the call may take once it is sent; 0: as long as its context.
	Limit time.Duration
	// Timeout bounds a batch that contains the call. Callers of RunBatch set its context by it.
	Timeout time.Duration
	// Late, if set, gets each answer after the first, which a call has that was sent again beside itself: see cluster.go.
	Late func(*Reply)
	// AfterBatch, which done may set, is called when all calls of a batch are done; may be nil.
	AfterBatch func()
	// Batch does the run together with others; nil: nothing does.
	Batch *Batch
	// Copies is how often the call was written and may have done something; nil: nobody counts.
	Copies Counter

	ctx        context.Context // the caller's: go-redis begins no retry after its end
	script     *Script
	queue      *sendQueue // nil: it was sent together with others
	args       []any      // of the command, with its name
	done       func(*Reply)
	sent       clock.Instant // before the first byte was sent
	before     int32         // Copies when it was sent last
	open       *open         // nil: it is to no Cluster, or was sent together with others
	replicaErr error         // why what it wrote does not count yet; nil: it does
	moved      bool          // few, and its slot has left the replicas of its former master

	// What most calls need is allocated with them: room for the arguments, the context of a lane, and the first answer.
	room      [FirstKey + 11]any
	directCtx callContext
	answered  atomic.Bool
	first     Reply
}

// A Counter counts copies of a command. An *atomic.Int32 is one.
type Counter interface {
	Load() int32
	Add(n int32) int32
}

// FirstKey is where the first key stands in the arguments of EVALSHA.
const FirstKey = 3

// NewCall prepares a run of s with that many keys and arguments at most. The goroutine that gets the
// answer calls done, once.
func NewCall(ctx context.Context, s *Script, size int, done func(*Reply)) *Call {
	k := new(Call)
	k.Prepare(ctx, s, size, done)
	return k
}

// Prepare is NewCall for a Call that is part of something else.
func (k *Call) Prepare(ctx context.Context, s *Script, size int, done func(*Reply)) {
	k.ctx, k.script, k.done = ctx, s, done
	if k.args = k.room[:FirstKey]; FirstKey+size > len(k.room) {
		k.args = make([]any, FirstKey, FirstKey+size)
	}
	k.args[0], k.args[1], k.args[2] = "evalsha", s.sha, 0
}

// AddKeys adds keys, which are strings and come before the other arguments.
func (k *Call) AddKeys(keys ...any) {
	k.args = append(k.args, keys...)
	k.args[2] = len(k.args) - FirstKey
}

// Add adds arguments.
func (k *Call) Add(args ...any) { k.args = append(k.args, args...) }

// key returns the first key.
func (k *Call) key() string {
	key, _ := k.args[FirstKey].(string)
	return key
}

func (k *Call) command(ctx context.Context) *redis.Cmd {
	args := k.args
	if g := k.script.Guard; g != nil {
		args = append(slices.Clip(args), g.Trusted(k.key()))
	}
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(FirstKey)
	return cmd
}

// reply is the answer to k.
func (k *Call) reply(value any, err error) *Reply {
	r := &k.first
	if k.answered.Swap(true) {
		r = new(Reply)
	}
	r.set(value, err, k.sent)
	r.ReplicaErr, r.Moved = k.replicaErr, k.moved
	return r
}

// sendWhole makes k send the script's text, which the server does not know yet.
func (k *Call) sendWhole() {
	k.args = slices.Clone(k.args) // which go out once more at the same time: see cluster.go
	k.args[0], k.args[1] = "eval", k.script.Source
}

// markSent notes that k is sent now, and when it was sent first.
func (k *Call) markSent(now clock.Instant) {
	if k.sent.IsZero() {
		k.sent = now
	}
	if k.Copies != nil {
		k.before = k.Copies.Load()
	}
}

// didNothing notes that the last copy did nothing, if one was written since k was sent last: go-redis may have got the
// answer from a connection before it wrote anything.
func (k *Call) didNothing() {
	if k.Copies != nil && k.Copies.Load() > k.before {
		k.Copies.Add(-1)
	}
}
