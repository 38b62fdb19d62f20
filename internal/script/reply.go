package script

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// An Outcome is what an answer says of an id.
type Outcome int8

// The outcomes.
const (
	Unknown Outcome = iota // the answer was an error
	Held                   // the id has the lock
	Queued                 // its ticket waits; or the lock is busy
	Over                   // the id is over, and refused; or it neither holds nor waits
	Again                  // the script is to be run again: there was more to do than one run does
	Done                   // it is done
	More                   // it is done, and a Poll is to be run at once: see Again
	NotHeld                // the id does not hold the lock
)

// A Grant is what comes with the lock: a token for the hold, and one for each time that the process may
// pass the lock on by itself.
type Grant struct {
	Token   int64 // the first one
	Tokens  int64 // how many there are
	Waiting int64 // tickets in the queue at that time

	Slots string // of a permit, such as "0-2,5"; "" in a message: a poll says which
}

// A Reply is a script's answer. Each operation has a method that reads it, once. What Redis holds may
// have been written by somebody else: reading past the end or a value of another type is an error.
type Reply struct {
	Sent clock.Instant // when the first byte of its call was sent
	Err  error
	// Few says why nothing may rely on the run: fewer replicas than wanted have what it wrote. Nil: it counts. Only the
	// answers to an Acquire, a Renew, a Begin and a Mark say so, and only if replicas are wanted.
	Few error
	// Moved says that too few replicas have it, and that the slot has left a node which is still a master.
	Moved bool

	values []any
	single [1]any // what values is of, if the answer is not a list
}

var errStrange = errors.New("the script's answer is not one of ours")

// valueOf returns what a command was answered.
func valueOf(cmd redis.Cmder) any {
	if c, ok := cmd.(interface{ Val() any }); ok {
		return c.Val()
	}
	return nil
}

func newReply(value any, err error, sent clock.Instant) *Reply {
	r := new(Reply)
	r.set(value, err, sent)
	return r
}

// set makes r the answer.
func (r *Reply) set(value any, err error, sent clock.Instant) {
	r.Sent, r.Err = sent, err
	switch v := value.(type) {
	case []any:
		r.values = v
	case int64, string:
		r.single[0] = v
		r.values = r.single[:]
	}
}

func (r *Reply) next() any {
	if len(r.values) == 0 {
		r.strange()
		return nil
	}
	v := r.values[0]
	r.values = r.values[1:]
	return v
}

func (r *Reply) strange() {
	if r.Err == nil {
		r.Err = errStrange
	}
}

func (r *Reply) int() int64 {
	switch v := r.next().(type) {
	case int64:
		return v
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
	}
	r.strange()
	return 0
}

func (r *Reply) text() string {
	s, ok := r.next().(string)
	if !ok {
		r.strange()
	}
	return s
}

// endless is the TTL of a key that never expires, or later than a Duration can say.
const endless = time.Duration(1 << 62)

// ttl reads what PTTL returned.
func (r *Reply) ttl() time.Duration {
	switch ms := r.int(); {
	case ms == -1 || ms > endless.Milliseconds():
		return endless
	case ms < 0: // gone meanwhile
		return 0
	default:
		return time.Duration(ms) * time.Millisecond
	}
}

func (r *Reply) list() []*Reply {
	values, ok := r.next().([]any)
	if !ok {
		r.strange()
	}
	list := make([]*Reply, len(values))
	for i, v := range values {
		list[i] = &Reply{Sent: r.Sent}
		list[i].values, _ = v.([]any)
	}
	return list
}

// holders reads what describe_holders of settle.lua returns, up to the end: nobody if the lock is free.
func (r *Reply) holders(inboxPrefix string) []core.Holder {
	ttl := r.ttl()
	if r.Err != nil || len(r.values) == 0 {
		return nil
	}
	now := time.UnixMicro(r.int())
	var holders []core.Holder
	for r.Err == nil && len(r.values) > 0 {
		about, inbox, token, since, trace := r.text(), r.text(), r.int(), r.int(), r.text()
		h := core.Holder{
			Process: processOf(inbox, inboxPrefix), TraceParent: trace,
			Token: token, Since: time.UnixMicro(since), TTL: ttl,
		}
		DescribeHolder(&h, about, now)
		holders = append(holders, h)
	}
	return holders
}

// grant reads what a granted id may use.
func (r *Reply) grant() Grant {
	g := Grant{Token: r.int(), Tokens: r.int(), Waiting: r.int()}
	if r.Err == nil && !g.isValid() {
		r.Err = fmt.Errorf("%w: token %d, %d of them", errStrange, g.Token, g.Tokens)
	}
	return g
}

func (g *Grant) isValid() bool {
	return g.Token >= 1 && g.Tokens >= 1 && g.Tokens <= math.MaxInt64-g.Token
}

// token reads an answer that is only a fencing token.
func (r *Reply) token() (token int64, ok bool) {
	if r.Err != nil {
		return 0, false
	}
	text, ok := r.single[0].(string)
	if !ok {
		return 0, false
	}
	token, err := strconv.ParseInt(text, 10, 64)
	return token, err == nil && token > 0
}

// ended reads the answer of a script that ends something.
func (r *Reply) ended() (Outcome, error) {
	code := r.int()
	switch {
	case r.Err != nil:
		return Unknown, r.Err
	case code == 0:
		return NotHeld, nil
	case code == 2:
		return More, nil
	}
	return Done, nil
}
