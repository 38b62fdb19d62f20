package idempotency_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestAnInspectorShowsTheRecordsOfAServer(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) { inspectRecords(t, s.NewClient(t)) })
}

func TestAnInspectorShowsTheRecordsOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t, 3, 0)
	inspectRecords(t, cluster.Client(t))
}

// inspectRecords checks what an Inspector shows of keys in several slots.
func inspectRecords(t *testing.T, rdb redis.UniversalClient) {
	once, insp := idempotency.New(usertest.ClientOf(t, rdb)), usertest.Inspector(t, rdb)
	get := func(k idempotency.Key, run *idempotency.Run) *lockmw.Record {
		t.Helper()
		s, err := insp.Get(t.Context(), k.LockKey())
		if err != nil || s.Record == nil {
			t.Fatalf("the status is %+v, %v", s, err)
		}
		text := fmt.Sprintf("%+v %+v", s, *s.Record)
		for _, secret := range []string{run.ID(), k.Fingerprint([]byte("tea")).String(), "secret"} {
			if strings.Contains(text, secret) {
				t.Errorf("it shows %s: %s", secret, text)
			}
		}
		return s.Record
	}
	for i := range 8 {
		k := idempotency.Key{Scope: "u", ID: fmt.Sprint("click-", i)}
		run, err := once.Begin(t.Context(), k, k.Fingerprint([]byte("tea")), idempotency.Refuse)
		isError(t, err, nil)
		if r := get(k, run); r.State != "open" || !r.Running || r.Returned {
			t.Errorf("while %s runs, the record is %+v", k.ID, r)
		}
		isError(t, run.Keep(idempotency.Answer{Status: 201, Body: []byte("secret")}), nil)
		if r := get(k, run); r.State != "done" || r.Running || r.Status != 201 || r.Size < len("secret") || r.Ended.Before(r.Began) {
			t.Errorf("when %s is done, the record is %+v", k.ID, r)
		}
	}
	k := idempotency.Key{Scope: "u", ID: "runs"}
	run, err := once.Begin(t.Context(), k, k.Fingerprint(), idempotency.Refuse)
	isError(t, err, nil)
	found := 0
	for s, err := range insp.All(t.Context(), lockmw.WithShare(1)) {
		if isError(t, err, nil); s.Key != k.LockKey() || s.Record == nil || !s.Record.Running {
			t.Errorf("a scan finds %+v", s)
		}
		found++
	}
	if found != 1 {
		t.Errorf("a scan finds %d locks", found)
	}
	isError(t, run.Leave(), nil)
	if r := get(k, run); r.State != "open" || r.Running || !r.Returned {
		t.Errorf("after an error, the record is %+v", r)
	}
}
