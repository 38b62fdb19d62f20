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

// A Script is a Lua script that Calls run.
type Script struct {
	Source string // the text
	SHA    string // its name for EVALSHA

	NeedsReplicas bool  // replicas may have to acknowledge what it writes (rule 21 of docs/protocol.md)
	Guard         Guard // decides which servers may run it; nil: all may, or it grants nothing

	sha any // SHA, as an argument of a command
}

// NewScript returns the script with that text.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source)) // as Redis names scripts
	s := &Script{Source: source, SHA: hex.EncodeToString(sum[:])}
	s.sha = s.SHA
	return s
}

// A Guard prevents servers that it does not trust from running a script. Each run carries the result of TrustedServer as its last
// argument. On a server with a different name the script writes nothing and answers with an error that begins with UNTRUSTED.
type Guard interface {
	// TrustedServer returns the name of the server that has a key, or "" if that server is not trusted.
	TrustedServer(key string) string
	// Examine finds out whether to trust the server of a key that has refused a run with the name carried. It returns nil if the
	// run is to be repeated.
	Examine(ctx context.Context, key string, carried any) error
}

// A Call is one execution of a script by EVALSHA.
type Call struct {
	// Limit bounds the call from when it is sent; 0: its context bounds it.
	Limit time.Duration
	// Timeout bounds the batch that contains the call. Callers of RunBatch set the batch's context by it.
	Timeout time.Duration
	// Late, if set, receives duplicate answers of a resent call: see cluster.go.
	Late func(*Reply)
	// AfterBatch is called when all calls of a batch are done. done may set it; it may be nil.
	AfterBatch func()
	// Batch runs the call together with others; nil: no script can.
	Batch *Batch
	// Copies counts how often the call was written and may have had an effect; nil: not counted.
	Copies Counter
	// Once keeps go-redis from repeating the command after a lost answer. The client of a Cluster may do so nevertheless.
	Once bool

	ctx        context.Context // the caller's: go-redis starts no retry after its end
	script     *Script
	queue      *sendQueue // nil: it was sent in a pipeline by its caller
	args       []any      // of the command, with its name
	done       func(*Reply)
	sent       clock.Instant // before the first byte was sent
	before     int32         // Copies when it was last sent
	open       *openCall     // nil: it does not go to a Cluster, or was sent in a pipeline by its caller
	replicaErr error         // why its writes do not count yet; nil: they do
	moved      bool          // replicaErr is set, and the slot has left the replicas of its former master

	// Most calls need the fields below, so they are allocated with the Call: memory for the arguments of a plain acquire, the
	// context for a direct connection, and the first answer.
	room      [FirstKey + 12]any
	directCtx callContext
	answered  atomic.Bool
	first     Reply
}

// A Counter counts copies of a command. An *atomic.Int32 is one.
type Counter interface {
	Load() int32
	Add(n int32) int32
}

// FirstKey is the position of the first key in the arguments of EVALSHA.
const FirstKey = 3

// NewCall prepares an execution of s with at most size keys and arguments. The goroutine that receives the answer calls done,
// once.
func NewCall(ctx context.Context, s *Script, size int, done func(*Reply)) *Call {
	k := new(Call)
	k.Prepare(ctx, s, size, done)
	return k
}

// Prepare is NewCall for a Call that is a field of another value.
func (k *Call) Prepare(ctx context.Context, s *Script, size int, done func(*Reply)) {
	k.ctx, k.script, k.done = ctx, s, done
	if k.args = k.room[:FirstKey]; FirstKey+size > len(k.room) {
		k.args = make([]any, FirstKey, FirstKey+size)
	}
	k.args[0], k.args[1], k.args[2] = "evalsha", s.sha, 0
}

// AddKeys adds keys. They must be strings and come before all other arguments.
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
		args = append(slices.Clip(args), g.TrustedServer(k.key()))
	}
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(FirstKey)
	return cmd
}

// reply returns the answer to k.
func (k *Call) reply(value any, err error) *Reply {
	r := &k.first
	if k.answered.Swap(true) {
		r = new(Reply)
	}
	r.set(value, err, k.sent)
	r.ReplicaErr, r.Moved = k.replicaErr, k.moved
	return r
}

// sendWhole makes k send the text of the script, which the server does not have yet.
func (k *Call) sendWhole() {
	k.args = slices.Clone(k.args) // a copy of the call may be in flight with them: see cluster.go
	k.args[0], k.args[1] = "eval", k.script.Source
}

// markSent records that k is sent now. sent stays the time of the first copy.
func (k *Call) markSent(now clock.Instant) {
	if k.sent.IsZero() {
		k.sent = now
	}
	if k.Copies != nil {
		k.before = k.Copies.Load()
	}
}

// didNothing takes the last copy off the count, because it had no effect. go-redis may have got the error from a connection
// before it wrote anything, so the count is reduced only if a copy was written since k was last sent.
func (k *Call) didNothing() {
	if k.Copies != nil && k.Copies.Load() > k.before {
		k.Copies.Add(-1)
	}
}
