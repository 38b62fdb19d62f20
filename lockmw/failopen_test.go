package lockmw_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestCallsThatFailOpenDoNotFillTheLog(t *testing.T) {
	var log usertest.Output
	server := redistest.Mini(t)
	c := usertest.Client(t, server, lockmw.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), lockmw.WithFailOpen())
	server.Mini.SetError("NOPERM this user has no permissions")
	for range 3 {
		_, hold := usertest.Lock(t, t.Context(), c, "item:7", lockmw.WithWait(0))
		usertest.Unlock(t, hold)
	}
	server.Mini.SetError("")
	if n := strings.Count(log.String(), "going on without a lock"); n != 1 {
		t.Errorf("3 calls have %d lines, want one: %s", n, log.String())
	}
}
