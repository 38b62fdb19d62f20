package script

import (
	"github.com/redis/go-redis/v9"
)

// Limits of the scripts, for tests.
const (
	MaxReaped = maxReaped
	MaxShown  = maxShown
	QueueTTL  = queueTTL
)

// Overtake lets the hook of ours that was added last take another one to be behind it, whenever hooks are put
// together, and returns it.
func Overtake(rdb *redis.Client) (hook any) {
	h := turnoutOf(rdb).latest.Load()
	h.innermost.Store(1)
	h.overtaken.Store(true)
	return h
}

// NewReply returns an answer.
func NewReply(value any, err error) *Reply { return newReply(value, err, 0) }

// Said is what m says, without its proof.
func (m *Message) Said() Message {
	said := *m
	said.text, said.proof = "", ""
	return said
}
