package doctor_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/doctor"
	"github.com/lockmw/go/internal/test/redistest"
)

func TestAServerThatLacksWhatLocksNeedIsNamed(t *testing.T) {
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
		rdb     *redis.Client
		check   string
		verdict doctor.Verdict
		saw     string
	}{
		"no TIME":    {lacking(redistest.Without("TIME")), "scripting", doctor.Failure, "may not write after TIME"},
		"no unpack":  {lacking(redistest.WithoutUnpack()), "scripting", doctor.Failure, "may not call unpack"},
		"no PUBLISH": {lacking(redistest.Without("PUBLISH", "SPUBLISH")), "messages", doctor.Warning, "may not publish messages, so waiting calls must poll"},
		"no scripts": {
			lacking(redistest.Refusing("", "ERR This instance has Lua scripting support disabled")), "scripting", doctor.Failure, "runs no scripts",
		},
		"proxy that checks scripts": {
			lacking(redistest.Refusing("PUBLISH", "ERR publish is not supported in lua")), "messages", doctor.Warning, "publish is not supported",
		},
		"whole seconds":      {lacking(redistest.WholeSeconds()), "expiry", doctor.Failure, "two callers can hold it"},
		"no expiry":          {lacking(redistest.WithoutExpiry()), "expiry", doctor.Failure, "PEXPIRE has no effect"},
		"scripts interleave": {interleaving.NewClient(t), "atomicity", doctor.Failure, "in the middle of a script"},
		"no run_id":          {redistest.Mini(t).NewClient(t), "address", doctor.Unknown, "no run_id"},
		"no INFO in scripts": {lacking(redistest.Without("INFO")), "address", doctor.Advice, "calls share no commands"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			findings := examine(t, tt.rdb, plan)
			want(t, findings, tt.check, tt.verdict, tt.saw)
			for _, f := range findings {
				if f.Verdict == doctor.Failure && f.Check != tt.check && f.Check != "lock" && f.Check != "hand-over" { // these may fail for the same reason
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// A general refusal is no reason to accuse a server, and neither are missing rights.
func TestScriptsThatCannotBeTriedAreNotAccused(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	for text, script := range map[string]string{
		"OOM command not allowed when used memory > 'maxmemory'": "'SET'", // scripts that only read run nevertheless
		"ERR upstream failure": "",
		"NOPERM this user has no permissions to run the 'eval' command": "",
	} {
		rdb := s.NewClient(t)
		rdb.AddHook(redistest.Refusing(script, text))
		for _, f := range examine(t, rdb, plan) {
			if f.Check == "scripting" && f.Verdict != doctor.Unknown || strings.Contains(f.Remedy, "servers.md") {
				t.Errorf("%s: %+v", text, f)
			}
		}
	}
}
