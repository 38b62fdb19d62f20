// Package redislog passes the log lines of go-redis to log/slog at a limited rate. While Redis is down, go-redis logs a line
// for each failed connection. Copy this package into your service.
//
//	redis.SetLogger(&redislog.Logger{}) // once, before the first client: it applies to all clients of the process
package redislog

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Every is the minimum interval between two lines.
const Every = 10 * time.Second

// A Logger writes lines with level WARN, each with the number of lines that it has suppressed since the previous one. The
// zero Logger uses slog.Default. It is safe for concurrent use.
type Logger struct {
	Log *slog.Logger // nil: slog.Default

	mu     sync.Mutex
	next   time.Time // earliest time of the next line
	missed int
}

// Printf implements the logger interface of go-redis.
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
