package engine

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
)

// A reply is a script's answer. Reading past its end or a value of another type makes it an error,
// which is asked for once at the end: what Redis holds may have been written by somebody else.
type reply struct {
	sent   time.Time
	values []any
	single [1]any // what values is of, if the answer is not a list
	err    error
}

var errStrange = errors.New("the script's answer is not one of ours")

// replyTo is the answer to a command.
func replyTo(cmd redis.Cmder, sent time.Time) *reply {
	var value any
	if c, ok := cmd.(interface{ Val() any }); ok {
		value = c.Val()
	}
	return newReply(value, cmd.Err(), sent)
}

func newReply(value any, err error, sent time.Time) *reply {
	r := &reply{sent: sent, err: err}
	switch v := value.(type) {
	case []any:
		r.values = v
	case int64, string:
		r.single[0] = v
		r.values = r.single[:]
	}
	return r
}

func (r *reply) next() any {
	if len(r.values) == 0 {
		r.strange()
		return nil
	}
	v := r.values[0]
	r.values = r.values[1:]
	return v
}

func (r *reply) strange() {
	if r.err == nil {
		r.err = errStrange
	}
}

func (r *reply) int() int64 {
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

func (r *reply) text() string {
	s, ok := r.next().(string)
	if !ok {
		r.strange()
	}
	return s
}

// endless is what is told of a key that never expires, or later than a Duration can say.
const endless = time.Duration(1 << 62)

// ttl reads what PTTL returned.
func (r *reply) ttl() time.Duration {
	switch ms := r.int(); {
	case ms == -1 || ms > endless.Milliseconds():
		return endless
	case ms < 0: // gone meanwhile
		return 0
	default:
		return time.Duration(ms) * time.Millisecond
	}
}

func (r *reply) list() []*reply {
	values, ok := r.next().([]any)
	if !ok {
		r.strange()
	}
	list := make([]*reply, len(values))
	for i, v := range values {
		list[i] = &reply{sent: r.sent}
		list[i].values, _ = v.([]any)
	}
	return list
}

// holders reads what in_the_way returns, up to the end: nobody if the lock is free.
func (r *reply) holders(inboxPrefix string) []core.Holder {
	ttl := r.ttl()
	var holders []core.Holder
	for r.err == nil && len(r.values) > 0 {
		owner, inbox, token, since, trace := r.text(), r.text(), r.int(), r.int(), r.text()
		holders = append(holders, core.Holder{
			Owner: owner, Process: strings.TrimPrefix(inbox, inboxPrefix), TraceParent: trace,
			Token: token, Since: time.UnixMicro(since), TTL: ttl,
		})
	}
	return holders
}

// licence reads what a granted id may use.
func (r *reply) licence() licence {
	l := licence{first: r.int(), count: r.int(), waiting: r.int()}
	if r.err == nil && (l.first < 1 || l.count < 1 || l.count > math.MaxInt64-l.first) {
		r.err = fmt.Errorf("%w: token %d, %d of them", errStrange, l.first, l.count)
	}
	return l
}

// token reads an answer that is but a fencing token.
func (r *reply) token() (token int64, ok bool) {
	if r.err != nil {
		return 0, false
	}
	text, ok := r.single[0].(string)
	if !ok {
		return 0, false
	}
	token, err := strconv.ParseInt(text, 10, 64)
	return token, err == nil && token > 0
}

// A licence is the tokens that came with a grant: one for the grant itself, each further one for
// passing the lock on within the process once.
type licence struct {
	first, count int64
	waiting      int64 // tickets of others in the queue at that time
}
