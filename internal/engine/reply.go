package engine

import (
	"errors"
	"fmt"
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
	err    error
}

var errStrange = errors.New("the script's answer is not one of ours")

func newReply(cmd redis.Cmder, sent time.Time) *reply {
	r := &reply{sent: sent, err: cmd.Err()}
	if c, ok := cmd.(interface{ Val() any }); ok && r.err == nil {
		r.values, _ = c.Val().([]any)
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

// holder reads what in_the_way returns: nothing if the lock is free.
func (r *reply) holder(inboxPrefix string) []core.Holder {
	ttl := time.Duration(r.int()) * time.Millisecond
	owner, inbox := r.text(), r.text()
	token, since, trace := r.int(), r.int(), r.text()
	if token == 0 {
		return nil
	}
	return []core.Holder{{
		Owner: owner, Process: strings.TrimPrefix(inbox, inboxPrefix), TraceParent: trace,
		Token: token, Since: time.UnixMicro(since), TTL: ttl,
	}}
}

// licence reads what a granted id may use.
func (r *reply) licence() licence {
	l := licence{first: r.int(), count: r.int(), waiting: r.int()}
	if r.err == nil && (l.first <= 0 || l.count < 1) {
		r.err = fmt.Errorf("%w: token %d, %d of them", errStrange, l.first, l.count)
	}
	return l
}

// A licence is the tokens that came with a grant: one for the grant itself, each further one for
// passing the lock on within the process once.
type licence struct {
	first, count int64
	waiting      int64 // tickets of others in the queue at that time
}
