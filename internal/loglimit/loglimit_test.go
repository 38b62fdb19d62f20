package loglimit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/loglimit"
)

func TestOneLineOfEachKindInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l loglimit.Limit
		want := func(kind string, missed int, ok bool) {
			t.Helper()
			if m, o := l.Allow(kind); m != missed || o != ok {
				t.Errorf("%s at %v: %d, %t, want %d, %t", kind, time.Now(), m, o, missed, ok)
			}
		}
		want("OOM", 0, true)
		want("refused", 0, true)
		for range 5 {
			want("OOM", 0, false)
		}
		time.Sleep(loglimit.Interval - time.Nanosecond)
		want("OOM", 0, false)
		time.Sleep(time.Nanosecond)
		want("OOM", 6, true)
		want("OOM", 0, false)
		want("refused", 0, true)
	})
}

type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestKindsOfFailures(t *testing.T) {
	for want, err := range map[string]error{
		"OOM":     fmt.Errorf("unavailable: %w", reply("OOM command not allowed")),
		"ERR":     reply("sentence without a code"),
		"refused": &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
		"silent":  fmt.Errorf("unavailable: %w", context.DeadlineExceeded),
		"other":   errors.New("10.0.0.7 exploded"),
	} {
		if got := loglimit.KindOf(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}
