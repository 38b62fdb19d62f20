// Package redislog passes the lines of go-redis to log/slog, at a bounded rate: while Redis is down, go-redis writes one to
// stderr for each connection that it fails to make. Copy it.
//
//	redis.SetLogger(&redislog.Logger{}) // once, before the first client is made: it is for all clients of the process
package redislog

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Every is how long after a line the next one may be written.
const Every = 10 * time.Second

// A Logger writes the lines with level WARN, and how many it has not written since the last one. The zero Logger uses
// slog.Default. It is safe for concurrent use.
type Logger struct {
	Log *slog.Logger // nil: slog.Default

	mu     sync.Mutex
	next   time.Time // before that no line is written
	missed int
}

// Printf implements go-redis' interface of a logger.
func (l *Logger) Printf(ctx context.Context, format string, args ...any) {
	missed, ok := l.allow(time.Now())
	if !ok {
		return
	}
	log := l.Log
	if log == nil {
		log = slog.Default()
	}
	log.WarnContext(ctx, "go-redis has written a line", "line", fmt.Sprintf(format, args...), "suppressed", missed)
}

func (l *Logger) allow(now time.Time) (missed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.next) {
		l.missed++
		return 0, false
	}
	missed = l.missed
	l.next, l.missed = now.Add(Every), 0
	return missed, true
}
