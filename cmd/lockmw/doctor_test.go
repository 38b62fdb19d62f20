package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lockmw/go/bridge"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
)

func TestDoctorFindsNothingWrongWithAServer(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	r := lockmwOn(t, s, "doctor")
	r.want(t, statusDone, "ok       server       ", "ok       rights       the user has the rights", "advice   persistence", "→ WithQuarantine", "\n0 failures, ")
	if strings.Contains(r.out, " client ") {
		t.Errorf("doctor checks its own client:\n%s", r.out)
	}
}

func TestDoctorReportsFailuresAndExitsWithSix(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	lockmwOn(t, s, "doctor", "--read-only").want(t, statusUnfit, "failure  eviction     maxmemory-policy allkeys-lru", "→ CONFIG SET maxmemory-policy noeviction", "1 failure, ")
	if err := s.NewClient(t).ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	lockmwOn(t, s, "doctor", "--read-only").want(t, statusDone, "warning  eviction", "0 failures, 1 warning")
	lockmwOn(t, s, "doctor", "--read-only", "--strict").want(t, statusUnfit, "warning  eviction")
}

// A check that could not find out is not one that passed.
func TestDoctorCountsWhatItCouldNotFindOut(t *testing.T) {
	t.Parallel()
	r := lockmwOn(t, redistest.Mini(t), "doctor", "--read-only")
	unknown := strings.Count(r.out, "\nunknown ")
	if want := fmt.Sprintf("advice, %d unknown\n", unknown); unknown == 0 || !strings.HasSuffix(r.out, want) {
		t.Errorf("the last line is not %q:\n%s", want, r.out)
	}
}

func TestDoctorPrintsJSON(t *testing.T) {
	t.Parallel()
	r := lockmwOn(t, redistest.Mini(t), "doctor", "--json", "--read-only")
	r.want(t, statusDone)
	checks := make(map[string]string)
	for line := range strings.Lines(r.out) {
		var f struct{ Check, Verdict string }
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		checks[f.Check] = f.Verdict
	}
	if checks["connection"] != "ok" || checks["eviction"] != "unknown" || checks["lock"] != "" {
		t.Errorf("%v", checks)
	}
}

func TestDoctorRefusesAnInvalidLease(t *testing.T) {
	t.Parallel()
	lockmwOn(t, redistest.Mini(t), "doctor", "--lease", "1ms").want(t, statusUsage, "--lease: from 100ms")
}

func TestDoctorTriesTheRightsOfAsynq(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	redistest.NeedsByScore(t, s.NewClient(t))
	lockmwOn(t, s, "doctor", "--asynq").want(t, statusDone, "ok       asynq        the user has the rights that asynq and")
	lockmwOn(t, s, "doctor", "--asynq", "--read-only").want(t, statusUsage, "--asynq tries rights on scratch keys")
}

func TestDoctorFailsOnAServerThatDoesNotExclude(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	s.Interleave()
	lockmwOn(t, s, "doctor").want(t, statusUnfit, "failure  atomicity    other commands run in the middle of a script", "--lua-transaction-mode")
}

func TestDoctorSeesWhetherOldCodeTakesAKey(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	rdb := s.NewClient(t)
	rdb.Set(t.Context(), "other", "of another library", 0)
	c := usertest.ClientOf(t, rdb)
	for library, locks := range map[string]*bridge.Locker{
		"redsync": bridge.Redsync(c, rdb), "redisson": bridge.Redisson(c, rdb), "rueidislock": bridge.Rueidislock(c, rdb, "", 0),
	} {
		_, hold := usertest.Lock(t, t.Context(), locks, "item:"+library)
		lockmwOn(t, s, "doctor", "--json", "--read-only", "--bridge", library+":item:"+library).want(t, statusDone, `"check":"bridge","verdict":"ok"`, "150 times with a bridge's value", "0 times with another one")
		usertest.Unlock(t, hold)
	}
	r := lockmwOn(t, s, "doctor", "--json", "--read-only", "--bridge", "redisson:other", "--bridge", "redsync:item:6")
	r.want(t, statusDone, `"verdict":"unknown","server":"","saw":"redisson key \"other\": WRONGTYPE`, `"verdict":"unknown","server":"","saw":"redsync key \"item:6\"`, "check its name")
	rdb.Set(t.Context(), "item:7", "a random value", 0)
	lockmwOn(t, s, "doctor", "--json", "--read-only", "--strict", "--bridge", "redsync:item:7").want(t, statusUnfit, `"check":"bridge","verdict":"warning"`, "150 times with another one", "keep the bridges")
	lockmwOn(t, s, "doctor", "--bridge", "redis:item").want(t, statusUsage, "--bridge: ", "must be library:name")
}
