package inspector_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lockmw/go/idempotency"
)

func TestTheRecordOfAKeyIsShown(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	once := idempotency.New(d.client())
	begin := func(id string) (run *idempotency.Run, path string) {
		t.Helper()
		key := idempotency.Key{Scope: "secret-42", ID: id}
		run, err := once.Begin(t.Context(), key, key.Fingerprint(nil), idempotency.Refuse)
		if err != nil {
			t.Fatal(err)
		}
		return run, "?key=" + key.LockKey()
	}
	_, path := begin("works") // each key is read once, because the page reads it again only after a while
	if r := d.json("/key.json"+path, http.StatusOK).Lock.Record; r == nil || r.State != "open" || r.Outcome != "running" || r.Began == nil || r.Ended != nil {
		t.Errorf("while the run works: %+v", r)
	}
	run, path := begin("done")
	if err := run.Keep(idempotency.Answer{Status: 201, Body: []byte("a secret answer")}); err != nil {
		t.Error(err)
	}
	if r := d.json("/key.json"+path, http.StatusOK).Lock.Record; r == nil || r.Outcome != "done" || r.Status != 201 || r.Ended == nil || r.KeptFor <= 0 {
		t.Errorf("after it: %+v", r)
	}
	page := d.get("/key"+path, http.StatusOK)
	for _, text := range []string{"Record of the work", "<dd>201</dd>", "Nobody holds this lock"} {
		if !strings.Contains(page, text) {
			t.Errorf("the page has no %q:\n%s", text, page)
		}
	}
	if strings.Contains(page, "secret") || strings.Contains(page, run.ID()) {
		t.Errorf("the page shows too much:\n%s", page)
	}
	run, path = begin("fails")
	if err := run.Leave(); err != nil {
		t.Error(err)
	}
	if page := d.get("/key"+path, http.StatusOK); !strings.Contains(page, "find out what it did, then call Runner.Resolve") {
		t.Errorf("the page of an unknown outcome:\n%s", page)
	}
	if page := d.get("/key?key=user:42", http.StatusOK); strings.Contains(page, "Record of the work") {
		t.Errorf("the page of a key without a record:\n%s", page)
	}
}
