// Package loglimit keeps an unreachable server from filling logs: it allows one line for each kind of failure in a while.
package loglimit

import (
	"context"
	"errors"
	"maps"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// Interval is the shortest time between two lines of one kind.
const Interval = 10 * time.Second

// A Limit decides which lines are written. It removes old kinds if there are many. Its zero value is ready to use. It is safe for
// concurrent use.
type Limit struct {
	mu      sync.Mutex
	kinds   map[string]kind
	cleared time.Time // when old kinds were last removed
}

// manyKinds is the number of kinds above which old ones are removed.
const manyKinds = 1000

type kind struct {
	next   time.Time // no line is written before that
	missed int       // lines left out since the last one
}

// Allow reports whether a line of that kind may be written now, and how many were left out since the last one.
func (l *Limit) Allow(name string) (missed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kinds == nil {
		l.kinds = make(map[string]kind)
	}
	now := time.Now()
	if len(l.kinds) >= manyKinds && now.Sub(l.cleared) >= Interval {
		maps.DeleteFunc(l.kinds, func(_ string, k kind) bool { return !now.Before(k.next) })
		l.cleared = now
	}
	k := l.kinds[name]
	if now.Before(k.next) {
		l.kinds[name] = kind{next: k.next, missed: k.missed + 1}
		return 0, false
	}
	l.kinds[name] = kind{next: now.Add(Interval)}
	return k.missed, true
}

// KindOf returns a word for the reason why a server was unavailable: the first word of its answer, such as READONLY, or the
// fate of the connection. The number of such words is small.
func KindOf(err error) string {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return firstWord(reply.Error())
	}
	network, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, context.DeadlineExceeded), ok && network.Timeout():
		return "silent"
	}
	return "other"
}

// firstWord returns the code at the beginning of a Redis error, in capitals; "ERR" if there is none.
func firstWord(reply string) string {
	word, _, _ := strings.Cut(reply, " ")
	if word == "" || len(word) > 20 || strings.ContainsFunc(word, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		return "ERR"
	}
	return word
}
