// Package loglimit keeps a server that is away from filling logs: of each kind of failure one line in a while is
// enough.
package loglimit

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Every is how long after a line the next one of its kind may be written.
const Every = 10 * time.Second

// A Limit says which lines are to be written. The zero Limit has written none. Safe for concurrent use.
type Limit struct {
	mu    sync.Mutex
	kinds map[string]*kind
}

type kind struct {
	next   time.Time // before that no line is written
	missed int       // lines since the last one
}

// Allow reports whether a line of that kind is to be written now, and how many were not since the last one.
func (l *Limit) Allow(name string) (missed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kinds[name]
	if k == nil {
		if l.kinds == nil {
			l.kinds = make(map[string]*kind)
		}
		k = &kind{}
		l.kinds[name] = k
	}
	now := time.Now()
	if now.Before(k.next) {
		k.missed++
		return 0, false
	}
	missed = k.missed
	k.next, k.missed = now.Add(Every), 0
	return missed, true
}

// KindOf returns why a server was unavailable, in a word out of few: the first one of its answer, such as READONLY,
// or what became of the connection.
func KindOf(err error) string {
	var reply interface {
		error
		RedisError()
	}
	var network net.Error
	switch {
	case errors.As(err, &reply):
		return firstWord(reply.Error())
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "silent"
	}
	return "other"
}

// firstWord returns the code that a reply of Redis begins with, in capitals; "ERR" if it has none.
func firstWord(reply string) string {
	word, _, _ := strings.Cut(reply, " ")
	if word == "" || len(word) > 20 || strings.ContainsFunc(word, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		return "ERR"
	}
	return word
}
