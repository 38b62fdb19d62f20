package transport_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/transport"
)

// try returns everything that a Trial finds.
func try(t *testing.T, rdb redis.UniversalClient) (all []transport.Shortcoming) {
	t.Helper()
	trial := transport.NewTrial(rdb, "lockmw", transport.ScratchTag("trial"), transport.ClusterOf(rdb) != nil)
	all, err := trial.Scripts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	expiry, err := trial.Expiry(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	atomicity, err := trial.Atomicity(t.Context(), transport.Much)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(all, expiry, atomicity)
}

func TestATrialNamesWhatAServerLacks(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	lacking := func(hook redistest.Hook) *redis.Client {
		rdb := s.NewClient(t)
		rdb.AddHook(hook)
		return rdb
	}
	interleaving := redistest.Mini(t)
	interleaving.Interleave()
	for name, tt := range map[string]struct {
		rdb    *redis.Client
		effect transport.Effect
		fault  string
	}{
		"TIME is not allowed":    {lacking(redistest.Without("TIME")), transport.Unusable, "may not write after TIME"},
		"unpack is not there":    {lacking(redistest.WithoutUnpack()), transport.Unusable, "may not call unpack"},
		"PUBLISH is not allowed": {lacking(redistest.Without("PUBLISH", "SPUBLISH")), transport.Degraded, "may not publish"},
		"expiry in seconds":      {lacking(redistest.WholeSeconds()), transport.Unsafe, "whole seconds only: a lock ends before its lease"},
		"keys do not expire":     {lacking(redistest.WithoutExpiry()), transport.Unsafe, "PEXPIRE has no effect"},
		"scripts interleave":     {interleaving.NewClient(t), transport.Unsafe, "in the middle of a script"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var found []transport.Shortcoming
			for tries := 0; len(found) == 0 && tries < 5; tries++ { // a trial that a busy machine has interrupted decides nothing
				found = try(t, tt.rdb)
			}
			if len(found) != 1 || found[0].Effect != tt.effect || !strings.Contains(found[0].Fault, tt.fault) || found[0].Remedy == "" {
				t.Errorf("%+v", found)
			}
		})
	}
}

// A server that runs no scripts at all is accused only if its error says so: a proxy may have lost its server.
func TestAServerWithoutScriptsIsNamedIfItSaysSo(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	for text, remedy := range map[string]string{
		"ERR This instance has Lua scripting support disabled":                     "--lua-transaction-mode",
		"ERR bad lua script for redis cluster, all the keys that the script uses…": "script_check_enable",
		"ERR upstream failure": "",
		"NOPERM this user has no permissions to run the 'eval' command": "",
	} {
		rdb := s.NewClient(t)
		rdb.AddHook(redistest.Refusing("", text))
		found, err := transport.NewTrial(rdb, "lockmw", "{trial}", false).Scripts(t.Context())
		switch {
		case remedy == "" && (err == nil || len(found) > 0):
			t.Errorf("%s: %+v, %v", text, found, err)
		case remedy != "" && (len(found) != 1 || found[0].Effect != transport.Unusable || !strings.Contains(found[0].Remedy, remedy)):
			t.Errorf("%s: %+v, %v", text, found, err)
		}
	}
}

// A proxy may refuse a script for its own state, which passes.
func TestARefusalThatPassesIsNoShortcoming(t *testing.T) {
	t.Parallel()
	rdb := redistest.Mini(t).NewClient(t)
	first := true
	rdb.AddHook(redistest.Hook(func(ctx context.Context, cmds []redis.Cmder, send func() error) error {
		if first {
			first = false
			return redistest.Refusing("unpack", "ERR upstream failure")(ctx, cmds, send)
		}
		return send()
	}))
	if found, err := transport.NewTrial(rdb, "lockmw", "{trial}", false).Scripts(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
	if first {
		t.Error("nothing was refused")
	}
}

// The servers that were tried keep nothing.
func TestAHealthyServerIsNotAccused(t *testing.T) {
	t.Parallel()
	rounds := 5
	if !suite.Full() {
		rounds = 2
	}
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		rdb := s.NewClient(t)
		for range rounds {
			if found := try(t, s.NewClient(t)); len(found) > 0 {
				t.Fatalf("%+v", found)
			}
			if keys := rdb.Keys(t.Context(), "*").Val(); len(keys) > 0 {
				t.Errorf("the trial leaves %q", keys)
			}
		}
	})
}

func TestAClusterIsNotAccused(t *testing.T) {
	t.Parallel()
	if found := try(t, redistest.NewCluster(t, 3, 0).Client(t)); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}

func TestASlowServerIsNotAccused(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	proxy := s.NewProxy(t)
	proxy.Delay(30*time.Millisecond, 20*time.Millisecond)
	busy := s.NewClient(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // the server has much to do, and stops again and again
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				busy.Eval(t.Context(), "for i = 1, 20000 do redis.call('GET', KEYS[1]) end", []string{"busy"})
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	if found := try(t, s.NewClient(t, proxy.Use)); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}

// A pause in the middle of a script changes one rest, and not all of them alike.
func TestOnlyWholeSecondsAreTakenForWholeSeconds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		left  []int64
		fault string
	}{
		"exact":               {[]int64{10000, 10250, 10500, 10750}, ""},
		"a millisecond less":  {[]int64{9999, 10249, 10499, 10749}, ""},
		"a pause":             {[]int64{10000, 10250, 10250, 10750}, ""},
		"a pause at the end":  {[]int64{10000, 10250, 10500, 10000}, ""},
		"a long pause":        {[]int64{10000, 9250, 10500, 10750}, ""},
		"deleted by another":  {[]int64{10000, -2, -2, -2}, ""},
		"too few":             {[]int64{10000}, ""},
		"rounded down":        {[]int64{9300, 9300, 10300, 10300}, "before its lease"},
		"rounded to the next": {[]int64{10400, 10400, 10400, 10400}, "before its lease"},
		"rounded up":          {[]int64{10300, 10300, 11300, 11300}, "a second longer"},
		"it does not end":     {[]int64{-1, -1, -1, -1}, "no effect"},
	} {
		found := transport.JudgeExpiry(tt.left)
		if (len(found) == 0) != (tt.fault == "") || len(found) > 0 && !strings.Contains(found[0].Fault, tt.fault) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
