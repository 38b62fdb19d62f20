package inspector_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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
