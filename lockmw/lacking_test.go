package lockmw_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// lacking returns a client of a server that lacks something.
func lacking(t *testing.T, s *redistest.Server, hook redistest.Hook) *redis.Client {
	rdb := s.NewClient(t)
	rdb.AddHook(hook)
	return rdb
}

func TestLocksArePolledForIfScriptsMayNotPublish(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	mute := redistest.Without("PUBLISH", "SPUBLISH")
	holder, waiter := usertest.ClientOf(t, lacking(t, s, mute)), usertest.ClientOf(t, lacking(t, s, mute))
	_, hold := usertest.Lock(t, t.Context(), holder, "mute")
	contended, waits := usertest.OnContended(t)
	go func() {
		waits()
		usertest.Unlock(t, hold)
	}()
	_, next := usertest.Lock(t, t.Context(), waiter, "mute", contended, lockmw.WithWait(time.Minute))
	usertest.Unlock(t, next)
}

// Such a server stays as it is, so a call does not wait for it.
func TestAServerThatLacksWhatLocksNeedIsNamedInTheError(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	for name, tt := range map[string]struct {
		hook redistest.Hook
		want string
	}{
		"TIME":   {redistest.Without("TIME"), "scripts may not run a command that locks need; run lockmw doctor"},
		"unpack": {redistest.WithoutUnpack(), "scripts may not call unpack; run lockmw doctor"},
		"Lua":    {redistest.Refusing("", "ERR This instance has Lua scripting support disabled"), "it runs no scripts; start Garnet with --lua"},
		"proxy": {
			redistest.Refusing("", "ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array"),
			"a proxy rejects the texts of scripts; connect without it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := usertest.ClientOf(t, lacking(t, s, tt.hook))
			_, _, err := c.Lock(t.Context(), "lacking:"+name, lockmw.WithWait(time.Minute))
			if !errors.Is(err, lockmw.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the server cannot hold locks: "+tt.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestAServerThatDoesNotExcludeIsLoggedOnce(t *testing.T) {
	t.Parallel()
	interleaving := redistest.Mini(t)
	interleaving.Interleave()
	for fault, rdb := range map[string]*redis.Client{
		"in the middle of a script":       interleaving.NewClient(t),
		"PEXPIRE keeps whole seconds":     lacking(t, redistest.Redis(t), redistest.WholeSeconds()),
		"scripts may not publish message": lacking(t, redistest.Redis(t), redistest.Without("PUBLISH", "SPUBLISH")),
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			var log usertest.Output
			c, err := lockmw.New(rdb, lockmw.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			for range 2 {
				_, hold := usertest.Lock(t, t.Context(), c, "logged")
				usertest.Unlock(t, hold)
				usertest.Eventually(t, "the warning", time.Minute, func() bool { return strings.Contains(log.String(), fault) })
			}
			if n := strings.Count(log.String(), fault); n != 1 {
				t.Errorf("%d warnings: %s", n, log.String())
			}
		})
	}
}

func TestNoWarningComesFromAHealthyServer(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		var log usertest.Output
		wire := s.NewWire()
		c, err := lockmw.New(s.NewClient(t, wire.Use), lockmw.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		wire.Record()
		_, hold := usertest.Lock(t, t.Context(), c, "healthy")
		usertest.Unlock(t, hold)
		awaitCommands(t, wire, ":probe:31", 1) // the last one of the probe
		c.Close()
		if log.String() != "" {
			t.Errorf("%s", log.String())
		}
	})
}
