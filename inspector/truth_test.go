package inspector_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestAnInvalidQueryIsABadRequest(t *testing.T) {
	d := newDesk(t)
	for _, query := range []string{
		"state=bogus", "state=Contended", "state=free", "mode=bogus", "sort=nonsense", "sort=--key", "page=0", "page=-1", "page=x", "page=1.5",
		"state=held&state=contended", "q=a&q=b", "state=held;mode=fair", "q=%zz",
	} {
		for _, path := range []string{"/locks.json?", "/?", "/live?page=overview&"} {
			if w := d.do(http.MethodGet, path+query); w.Code != http.StatusBadRequest {
				t.Errorf("%s%s: %d", path, query, w.Code)
			}
		}
	}
	if w := d.do(http.MethodGet, "/locks.json?state=bogus"); !strings.Contains(w.Body.String(), "contended") {
		t.Errorf("the answer does not list the valid states:\n%s", w.Body)
	}
	for _, query := range []string{"state=&mode=&q=&sort=&page=", "state=held&mode=read&sort=-wait&page=1", "page=7", "other=x"} {
		d.get("/locks.json?"+query, http.StatusOK)
		d.get("/?"+query, http.StatusOK)
	}
}

func TestUnreadLocksAreNotShownAsFree(t *testing.T) {
	s := redistest.Mini(t)
	s.Mini.Close()
	d := newDeskOn(t, s)
	page := d.get("/", http.StatusServiceUnavailable)
	for _, name := range []string{"Locks", "Held", "Contended", "Calls waiting", "Longest wait"} {
		if !strings.Contains(page, "<dt>"+name+"</dt><dd>–</dd>") && !strings.Contains(page, "<dt>"+name+"</dt>\n    <dd>–</dd>") {
			t.Errorf("%s:\n%s", name, page)
		}
	}
	if text := d.get("/locks.json", http.StatusServiceUnavailable); !strings.Contains(text, `"totals": null`) {
		t.Errorf("in JSON it is\n%s", text)
	}
	if page := d.get("/key?key=user:42", http.StatusServiceUnavailable); strings.Contains(page, "Nobody holds") || strings.Contains(page, "badge free") {
		t.Errorf("a lock that was never read is free:\n%s", page)
	}
	if l := d.json("/key.json?key=user:42", http.StatusServiceUnavailable).Lock; l.State != "unknown" {
		t.Errorf("a lock that was never read is %q", l.State)
	}
}

// A monitor must not mistake an old state for the current one.
func TestPagesAndJSONAgreeWhetherRedisAnswers(t *testing.T) {
	inBubble(t, func(d *desk) {
		usertest.Lock(d, d.Context(), d.client(), "user:42", lockmw.WithFixedLease(time.Hour))
		paths := []string{"/", "/locks.json", "/key?key=user:42", "/key.json?key=user:42", "/redis", "/redis.json"}
		for _, path := range paths {
			d.get(path, http.StatusOK)
		}
		d.await("/redis", `class="badge ok"`)
		d.server.Mini.SetError("LOADING Redis is loading the dataset in memory")
		for _, path := range paths {
			d.await(path, "LOADING")
			d.get(path, http.StatusServiceUnavailable)
		}
		page := d.get("/redis", http.StatusServiceUnavailable)
		if strings.Contains(page, "PING now") || strings.Contains(page, `class="badge ok"`) {
			d.Errorf("all is well while Redis is down:\n%s", page)
		}
		if text := d.get("/redis.json", http.StatusServiceUnavailable); !strings.Contains(text, `"ping_ms": null`) || !strings.Contains(text, `"findings": []`) {
			d.Errorf("in JSON it is\n%s", text)
		}
		d.server.Mini.SetError("")
		usertest.Eventually(d, "all is well again", time.Minute, func() bool {
			return d.do(http.MethodGet, "/redis").Code == http.StatusOK && strings.Contains(d.get("/redis", http.StatusOK), "PING now")
		})
	})
}

// go-redis retries a dial for seconds before it returns an error. Here it retries until the test ends.
func TestPagesDoNotWaitForAnUnreachableServer(t *testing.T) {
	inBubble(t, func(d *desk) {
		ends := make(chan struct{})
		d.Cleanup(func() { close(ends) })
		var away atomic.Bool
		d.through(func(o *redis.Options) {
			o.MaxRetries = -1
			dial := o.Dialer
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if away.Load() {
					<-ends
					return nil, syscall.ECONNREFUSED
				}
				return dial(ctx, network, addr)
			}
		})
		paths := []string{"/", "/locks.json", "/key?key=user:42", "/redis"}
		for _, path := range paths {
			d.get(path, http.StatusOK)
		}
		away.Store(true)
		d.server.Mini.Close()
		time.Sleep(3 * time.Second) // then all readings are due again
		for range 3 {
			for _, path := range paths {
				began := time.Now()
				d.do(http.MethodGet, path)
				if took := time.Since(began); took > time.Second {
					d.Errorf("%s: %v", path, took)
				}
			}
		}
	})
}
