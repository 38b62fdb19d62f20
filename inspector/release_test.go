package inspector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/inspector"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

const dead = "web-9:7:abc"

// leave stores a lock of a dead process; more has further fields of the hold.
func (d *desk) leave(key, more string, lease time.Duration) {
	d.Helper()
	rdb := d.server.NewClient(d)
	token := time.Now().UnixMicro()
	err := rdb.HSet(d.Context(), "lockmw:{"+key+"}", "id", "x.1", "owner", key+more, "token", token, "inbox", "lockmw:inbox:"+dead).Err()
	if err == nil {
		err = rdb.PExpire(d.Context(), "lockmw:{"+key+"}", lease).Err()
	}
	if err != nil {
		d.Fatal(err)
	}
}

type processJSON struct {
	Processes []struct {
		Process        string
		Holds, Waiting int
	}
	Holds []struct {
		Key, Process, Label string
		Fixed               bool
		LeaseLeft           int `json:"lease_left_ms"`
	}
	Waits   []struct{ Key, Process string }
	Silence *struct {
		Silent bool
		Since  *time.Time
		Reason string
	}
}

func (d *desk) process(name string) (a processJSON) {
	d.Helper()
	if err := json.Unmarshal([]byte(d.get("/process.json?process="+url.QueryEscape(name), http.StatusOK)), &a); err != nil {
		d.Fatal(err)
	}
	return a
}

func TestAPageShowsTheHoldsAndWaitsOfAProcess(t *testing.T) {
	inBubble(t, func(d *desk) {
		one, other := d.client(), d.client()
		usertest.Lock(d, d.Context(), one, "user:1", lockmw.WithLabel("req-1"))
		usertest.Lock(d, d.Context(), one, "user:2", lockmw.WithFixedLease(time.Hour))
		usertest.Lock(d, d.Context(), other, "user:3")
		d.wait(one, "user:3", lockmw.WithLabel("req-2"))
		name := d.json("/key.json?key=user:1", http.StatusOK).Lock.Holders[0].Process
		host, _, _ := strings.Cut(name, ":")
		a := d.process(name)
		if len(a.Processes) != 1 || a.Processes[0].Holds != 2 || a.Processes[0].Waiting != 1 || len(a.Holds) != 2 || a.Holds[0].Key != "user:1" ||
			a.Holds[0].Label != "req-1" || !a.Holds[1].Fixed || a.Holds[1].LeaseLeft == 0 || len(a.Waits) != 1 || a.Waits[0].Key != "user:3" {
			d.Errorf("of %s: %+v", name, a)
		}
		if a.Silence == nil || a.Silence.Silent || !strings.Contains(a.Silence.Reason, "unless renewed") {
			d.Errorf("of %s: %+v", name, a.Silence)
		}
		for _, name := range []string{host, host + name[len(host):strings.LastIndex(name, ":")], ""} {
			if a := d.process(name); len(a.Processes) != 2 || a.Processes[0].Holds != 2 || a.Processes[1].Holds != 1 || a.Silence != nil {
				d.Errorf("of %q: %+v", name, a)
			}
		}
		for _, name := range []string{host[:len(host)-1], "nobody", name + "x"} {
			if a := d.process(name); len(a.Processes) != 0 || len(a.Holds) != 0 || a.Silence == nil || a.Silence.Silent {
				d.Errorf("of %q: %+v", name, a)
			}
		}
		link := `href="process?process=` + url.QueryEscape(name) + `"`
		for path, text := range map[string]string{"/": link, "/key?key=user:1": link, "/process": link, "/process?process=" + name: "req-2"} {
			if page := d.get(path, http.StatusOK); !strings.Contains(page, text) {
				d.Errorf("%s has no %s:\n%s", path, text, page)
			}
		}
		d.get("/process?process=a&process=b", http.StatusBadRequest)
		d.get("/process.json?process="+strings.Repeat("x", 600), http.StatusBadRequest)
	})
}

func TestLocksOfADeadProcessAreReleasedAfterAWholeLease(t *testing.T) {
	inBubble(t, func(d *desk) {
		usertest.Lock(d, d.Context(), d.client(), "alive:1")
		d.leave("dead:1", "", 30*time.Second)
		d.leave("dead:2", ";fixed", time.Hour)
		d.leave("dead:3", ";label=job", 10*time.Minute)
		began := time.Now()
		page := d.watch("page=process&process=" + dead)
		page.until("cannot be released together")
		if w := d.do(http.MethodGet, "/release-process?process="+dead); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "Nothing was released") {
			d.Errorf("asked too early: %d\n%s", w.Code, w.Body)
		}
		page.until("Release all its locks")
		if took := time.Since(began); took < 30*time.Second || took > 33*time.Second {
			d.Errorf("the page offers the release after %v", took)
		}
		if a := d.process(dead); !a.Silence.Silent || len(a.Holds) != 2 {
			d.Errorf("%+v", a)
		}
		o := d.askAt("/release-process", "process="+dead)
		w := o.confirm("Sec-Fetch-Site", "same-origin")
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "2 locks were released") || strings.Contains(w.Body.String(), "not in the history") {
			d.Errorf("%d\n%s", w.Code, w.Body)
		}
		for key, free := range map[string]bool{"dead:2": true, "dead:3": true, "alive:1": false} {
			if usertest.IsFree(d.client(), key) != free {
				d.Errorf("%s is free: %v", key, !free)
			}
		}
		if history := newDeskOn(d.T, d.server).get("/key?key=dead:3", http.StatusOK); !strings.Contains(history, "forced by <bdi>alice</bdi>") {
			d.Errorf("the history is\n%s", history)
		}
	}, inspector.WithForceUnlock(everybody), inspector.WithOperator(func(*http.Request) string { return "alice" }))
}

func TestASignOfLifeKeepsTheLocksOfAProcess(t *testing.T) {
	inBubble(t, func(d *desk) {
		d.leave("dead:1", "", 30*time.Second)
		d.leave("dead:2", ";fixed", time.Hour)
		d.watch("page=process&process=" + dead).until("Release all its locks")
		o := d.askAt("/release-process", "process="+dead)
		d.leave("dead:4", "", 30*time.Second) // it has woken up
		time.Sleep(3 * time.Second)
		if w := o.confirm(); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "Nothing was released") {
			d.Errorf("%d\n%s", w.Code, w.Body)
		}
		if a := d.process(dead); a.Silence.Silent || len(a.Holds) != 2 {
			d.Errorf("%+v", a)
		}
	}, inspector.WithForceUnlock(everybody))
}

// An operator confirms minutes after the page was last read. A Redis with many keys is then read too slowly for the answer.
func TestAConfirmationNeedsAReadingOfNow(t *testing.T) {
	inBubble(t, func(d *desk) {
		var slow atomic.Bool
		rdb := d.server.NewClient(d)
		rdb.AddHook(redistest.Hook(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
			if slow.Load() && strings.HasPrefix(cmds[0].Name(), "scan") {
				time.Sleep(2 * time.Second)
			}
			return send()
		}))
		d.page = inspector.Handler(usertest.Inspector(d, rdb), inspector.WithForceUnlock(everybody))
		d.leave("dead:1", "", 30*time.Second)
		d.leave("dead:2", "", 10*time.Minute)
		w := d.watch("page=process&process=" + dead)
		w.until("Release all its locks")
		o := d.askAt("/release-process", "process="+dead)
		w.cancel()
		time.Sleep(5 * time.Minute)
		slow.Store(true)
		if err := rdb.PExpire(d.Context(), "lockmw:{dead:2}", 10*time.Minute).Err(); err != nil { // the process has woken up
			d.Fatal(err)
		}
		if w := o.confirm(); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "Nothing was released") {
			d.Errorf("%d\n%s", w.Code, w.Body)
		}
		if usertest.IsFree(d.client(), "dead:2") {
			d.Error("the lock was released")
		}
	})
}

func TestReleasingAProcessNeedsAConfirmation(t *testing.T) {
	may := func(r *http.Request) bool { return r.Header.Get("X-User") != "dev" }
	inBubble(t, func(d *desk) {
		d.leave("dead:1", "", 30*time.Second)
		d.leave("dead:2", ";fixed", time.Hour)
		d.watch("page=process&process=" + dead).until("Release all its locks")
		for name, change := range map[string]func(*operator) []string{
			"from another site":       func(*operator) []string { return []string{"Sec-Fetch-Site", "cross-site"} },
			"of another origin":       func(*operator) []string { return []string{"Origin", "https://evil.example.com"} },
			"by an unauthorized user": func(*operator) []string { return []string{"X-User", "dev"} },
			"without a cookie":        func(o *operator) []string { o.cookie = nil; return nil },
			"without a signature":     func(o *operator) []string { o.form.Del("confirmation"); return nil },
			"for longer":              func(o *operator) []string { o.form.Set("until", "99999999999"); return nil },
			"of another process":      func(o *operator) []string { o.form.Set("target", "process=web-8"); return nil },
		} {
			o := d.askAt("/release-process", "process="+dead)
			if w := o.confirm(change(o)...); w.Code != http.StatusForbidden {
				d.Errorf("%s: %d\n%s", name, w.Code, w.Body)
			}
		}
		if w := d.do(http.MethodGet, "/process?process="+dead, "X-User", "dev"); strings.Contains(w.Body.String(), "Release all its locks") {
			d.Error("the page offers the release to an unauthorized operator")
		}
		if w := d.do(http.MethodGet, "/release-process?process="+dead, "X-User", "dev"); w.Code != http.StatusForbidden {
			d.Errorf("the confirmation page of an unauthorized operator: %d", w.Code)
		}
		for _, path := range []string{"/release-process", "/release-process?process=", "/release-process?process=a&process=b"} {
			d.get(path, http.StatusNotFound)
		}
		if w := d.serve(httptest.NewRequest(http.MethodPost, "/process?process="+dead, nil)); w.Code != http.StatusMethodNotAllowed {
			d.Errorf("POST to the page: %d", w.Code)
		}
		if a := d.process(dead); len(a.Holds) != 1 {
			d.Errorf("%+v", a)
		}
	}, inspector.WithForceUnlock(may))
}

// Leases expire one after another, and there are more of them than a watch reads.
func TestAProcessWithManyLocksIsReleased(t *testing.T) {
	inBubble(t, func(d *desk) {
		for i := range 80 {
			d.leave(fmt.Sprint("dead:", i), ";fixed", time.Hour)
		}
		d.leave("dead:x", "", 6*time.Second)
		d.watch("page=process&process=" + dead).until("Release all its locks")
		if w := d.askAt("/release-process", "process="+dead).confirm(); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "80 locks were released") {
			d.Errorf("%d\n%s", w.Code, w.Body)
		}
	}, inspector.WithForceUnlock(everybody))
}
