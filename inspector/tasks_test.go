package inspector_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/inspector"
	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/internal/test/parkedtest"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
)

func TestTasksThatWaitAreShown(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	usertest.Lock(d, d.Context(), d.client(), "user:42")
	rdb := d.server.NewClient(t)
	parkedtest.Park(t, rdb, "default", "lockmw:{user:42}", time.Now().Add(-time.Minute), "first", "task <2>")
	parkedtest.Park(t, rdb, "default", "lockmw:{user:43}", time.Now().Add(-time.Minute), "other")
	l := d.json("/key.json?key=user:42", http.StatusOK).Lock
	if len(l.Tasks) != 2 || l.MoreTasks != 0 {
		t.Fatalf("%+v", l)
	}
	if got := l.Tasks[1]; got.Queue != "default" || got.ID != "task <2>" || got.Place != 2 || got.State != "parked" || got.Waited < 60_000 || got.Waited > 600_000 {
		t.Errorf("%+v", got)
	}
	page := d.get("/key?key=user:42", http.StatusOK)
	for _, text := range []string{"<h2>Tasks</h2>", "first", "task &lt;2&gt;", "parked"} {
		if !strings.Contains(page, text) {
			t.Errorf("the page has no %q:\n%s", text, page)
		}
	}
	if page := d.get("/key?key=user:43", http.StatusOK); !strings.Contains(page, "Tasks will be woken") || strings.Contains(page, "nobody waits") {
		t.Errorf("the page of a free lock with tasks:\n%s", page)
	}
	if page := d.get("/key?key=user:44", http.StatusOK); strings.Contains(page, "Tasks") {
		t.Errorf("the page of a lock without tasks:\n%s", page)
	}
}

// Anybody may write next to the queues.
func TestOddTasksHideNeitherTheLockNorOtherTasks(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	usertest.Lock(d, d.Context(), d.client(), "user:42")
	rdb := d.server.NewClient(t)
	parkedtest.Park(t, rdb, "default", "lockmw:{user:42}", time.Now(), "first")
	parkedtest.Park(t, rdb, "default", "lockmw:{user:43}", time.Now(), "other")
	list := parked.ListOf("default", "lockmw:{user:42}")
	look := func(path string) (l lockJSON, page string) {
		d.page = inspector.Handler(d.insp) // it has read nothing yet
		return d.json("/key.json?"+path, http.StatusOK).Lock, d.get("/key?"+path, http.StatusOK)
	}
	if err := rdb.ZAdd(t.Context(), list, redis.Z{Score: 1.5, Member: "first"}).Err(); err != nil {
		t.Fatal(err)
	}
	if l, _ := look("key=user:42"); l.State != "held" || len(l.Tasks) != 1 {
		t.Errorf("%+v", l)
	}
	if err := rdb.Set(t.Context(), list, "a string", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if l, page := look("key=user:42"); l.State != "held" || !strings.Contains(page, "Tasks may wait for the lock: they could not be read") {
		t.Errorf("%+v\n%s", l, page)
	}
	if l := d.json("/key.json?key=user:43", http.StatusOK).Lock; len(l.Tasks) != 1 {
		t.Errorf("%+v", l)
	}
}

// A user with rights for locks only sees locks, and causes few entries in the server's ACL log.
func TestAUserWithoutRightsForTasksSeesTheLock(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	rdb := s.NewClient(t)
	if err := rdb.Do(t.Context(), "acl", "setuser", "app", "on", ">hush", "~lockmw:*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	parkedtest.Park(t, rdb, "default", "lockmw:{user:42}", time.Now(), "first")
	d := newDeskOn(t, s)
	d.through(func(o *redis.Options) { o.Username, o.Password = "app", "hush" })
	usertest.Lock(d, d.Context(), d.client(), "user:42")
	for _, key := range []string{"user:42", "user:43", "user:44"} {
		if l := d.json("/key.json?key="+key, http.StatusOK).Lock; len(l.Tasks) != 0 || (l.State == "held") != (key == "user:42") {
			t.Errorf("%+v", l)
		}
	}
	denied, err := rdb.ACLLog(t.Context(), 100).Result()
	if err != nil || len(denied) != 1 || denied[0].Count != 1 {
		t.Errorf("%+v, %v", denied, err)
	}
}

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

func TestTheHistoryIsInTheOrderOfTimesToTheMillisecond(t *testing.T) {
	d := newDesk(t)
	rdb := d.server.NewClient(t)
	at := time.Date(2020, 11, 26, 12, 0, 0, 0, time.UTC).UnixMicro()
	for process, lines := range []string{
		fmt.Sprintf(`{"at_us":%d,"event":"acquired","key":"user:42"}`+"\n"+`{"at_us":%d,"event":"released","key":"user:42"}`, at+4000, at+20_000),
		fmt.Sprintf(`{"at_us":%d,"event":"waits","key":"user:42"}`, at+7000),
	} {
		add := &redis.XAddArgs{Stream: "lockmw:events", Values: []any{"process", fmt.Sprint(process), "events", lines}}
		if err := rdb.XAdd(t.Context(), add).Err(); err != nil {
			t.Fatal(err)
		}
	}
	d.await("/key?key=user:42", ">12:00:00.020<")
	page := d.get("/key?key=user:42", http.StatusOK)
	released, waits, acquired := strings.Index(page, ">12:00:00.020<"), strings.Index(page, ">12:00:00.007<"), strings.Index(page, ">12:00:00.004<")
	if released < 0 || waits < released || acquired < waits {
		t.Errorf("at %d, %d and %d of\n%s", released, waits, acquired, page)
	}
}
