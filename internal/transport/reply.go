package transport

import (
	"errors"
	"strconv"
	"time"

	"github.com/lockmw/go/internal/clock"
)

// A Reply is a script's answer, which is read once, value by value. Another program may have written the data in Redis, so
// reading past the end or a value of another type sets Err.
type Reply struct {
	Sent clock.Instant // when the first byte of its call was sent
	Err  error
	// ReplicaErr is set if the run does not count because too few replicas have acknowledged its writes. Only answers of scripts
	// with NeedsReplicas set it, and only if replicas are required.
	ReplicaErr error
	// Moved means that ReplicaErr is set, and that the slot has left a node which is still a master.
	Moved bool

	values []any
	single [1]any // the memory of values, if the answer is not a list
}

// ErrMalformed reports that an answer is not in the form that its script returns.
var ErrMalformed = errors.New("unexpected answer to a script")

// NewReply returns a Reply with a value or an error.
func NewReply(value any, err error, sent clock.Instant) *Reply {
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

// Single returns the answer if it is not a list.
func (r *Reply) Single() any { return r.single[0] }

// Left returns the number of unread values.
func (r *Reply) Left() int { return len(r.values) }

func (r *Reply) next() any {
	if len(r.values) == 0 {
		r.SetMalformed()
		return nil
	}
	v := r.values[0]
	r.values = r.values[1:]
	return v
}

// SetMalformed sets Err because the answer does not have the form that its script returns.
func (r *Reply) SetMalformed() {
	if r.Err == nil {
		r.Err = ErrMalformed
	}
}

// Int reads a number.
func (r *Reply) Int() int64 {
	switch v := r.next().(type) {
	case int64:
		return v
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
	}
	r.SetMalformed()
	return 0
}

// Text reads a text.
func (r *Reply) Text() string {
	s, ok := r.next().(string)
	if !ok {
		r.SetMalformed()
	}
	return s
}

// endless is the TTL of a key that never expires, or expires later than a Duration can express.
const endless = time.Duration(1 << 62)

// TTL reads a result of PTTL.
func (r *Reply) TTL() time.Duration {
	switch ms := r.Int(); {
	case ms == -1 || ms > endless.Milliseconds():
		return endless
	case ms < 0: // gone meanwhile
		return 0
	default:
		return time.Duration(ms) * time.Millisecond
	}
}

// List reads a list of lists.
func (r *Reply) List() []*Reply {
	values, ok := r.next().([]any)
	if !ok {
		r.SetMalformed()
	}
	list := make([]*Reply, len(values))
	for i, v := range values {
		list[i] = &Reply{Sent: r.Sent}
		list[i].values, _ = v.([]any)
	}
	return list
}

// Each reads a list by calling read until the list is used up. Each call reads some of its values.
func (r *Reply) Each(read func(list *Reply)) {
	values, ok := r.next().([]any)
	if !ok {
		r.SetMalformed()
	}
	list := &Reply{values: values}
	for len(list.values) > 0 && list.Err == nil {
		read(list)
	}
	if list.Err != nil {
		r.SetMalformed()
	}
}
