package redislog_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/lockmw/go/examples/internal/redislog"
)

func TestFiftyFailedConnectionsLogOneLine(t *testing.T) {
	var out bytes.Buffer // receives one line only, so it needs no lock
	redis.SetLogger(&redislog.Logger{Log: slog.New(slog.NewTextHandler(&out, nil))})
	defer redis.SetLogger(&logging.VoidLogger{})
	rdb := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, io.ErrUnexpectedEOF },
	})
	var work sync.WaitGroup
	for range 50 {
		work.Go(func() {
			if err := rdb.Ping(t.Context()).Err(); err == nil {
				t.Error("a server that is down has answered")
			}
		})
	}
	work.Wait()
	if err := rdb.Close(); err != nil {
		t.Error(err)
	}
	line := out.String()
	if !strings.Contains(line, "level=WARN") || !strings.Contains(line, "connection pool: failed to dial") || strings.Count(line, "\n") != 1 {
		t.Errorf("50 calls, want one line: %s", line)
	}
}

func TestTheNextLineCountsSuppressedLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := &redislog.Logger{Log: slog.New(slog.NewTextHandler(&out, nil))}
		for range 100 {
			l.Printf(t.Context(), "failed to dial %s", "10.0.0.7")
		}
		<-time.After(redislog.Every)
		l.Printf(t.Context(), "again")
		if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "failed to dial 10.0.0.7") || !strings.Contains(got, "suppressed=99") {
			t.Errorf("logged: %s", got)
		}
	})
}
