package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
)

func TestBenchMeasuresEachKindOfWork(t *testing.T) {
	s := redistest.Mini(t)
	r := lockmwOn(t, s, "bench", "--duration", "50ms", "--goroutines", "4")
	r.want(t, statusDone, "1 goroutine ", "4 goroutines, a key each", "4 goroutines, one key ", "4 goroutines, one key, fair")
	if n := strings.Count(r.out, " ms "); n != 8 {
		t.Errorf("%s", r.out)
	}
	rdb := s.NewClient(t)
	for _, key := range rdb.Keys(t.Context(), "lockmw:{*").Val() { // marks of repeated calls, on a busy machine
		if rdb.PTTL(t.Context(), key).Val() <= 0 {
			t.Errorf("bench left the key %s", key)
		}
	}
}

func TestBenchPrintsJSON(t *testing.T) {
	r := lockmwOn(t, redistest.Mini(t), "bench", "--duration", "300ms", "--json")
	r.want(t, statusDone)
	var work []string
	for line := range strings.Lines(r.out) {
		var b benchRecord
		if err := json.Unmarshal([]byte(line), &b); err != nil {
			t.Fatal(err)
		}
		if b.PerSecond <= 0 || b.Median <= 0 || b.P99 < b.Median || b.Longest < b.P99 {
			t.Errorf("%+v", b)
		}
		work = append(work, b.Work)
	}
	if got := strings.Join(work, " "); got != "alone own_keys one_key one_key_fair" {
		t.Error(got)
	}
}

func TestBenchEndsWithTheServersError(t *testing.T) {
	s := redistest.Redis(t)
	if err := s.NewClient(t).ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	lockmwOn(t, s, "bench", "--duration", "5s", "--timeout", "1s").want(t, statusFailed, "OOM")
}

func TestBenchRefusesInvalidFlags(t *testing.T) {
	s := redistest.Mini(t)
	lockmwOn(t, s, "bench", "--duration", "1ms").want(t, statusUsage, "--duration")
	lockmwOn(t, s, "bench", "--goroutines", "0").want(t, statusUsage, "--goroutines")
}

// The error contains its own remedy, so the hint about another prefix must not follow.
func TestAUsedUpCounterGetsNoHintAboutThePrefix(t *testing.T) {
	s := redistest.Mini(t)
	if err := s.NewClient(t).Set(t.Context(), "lockmw:fence", 1<<53-1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	r := lockmwOn(t, s, "bench", "--duration", "50ms")
	r.want(t, statusFailed, "fencing counter lockmw:fence is used up", "delete it")
	if strings.Contains(r.err, "choose another --prefix") {
		t.Error(r.err)
	}
}
