package inspector_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// fill stores n keys that are not locks.
func fill(t *testing.T, rdb *redis.Client, n int) {
	t.Helper()
	for i := 0; i < n; i += 1000 {
		var pairs []any
		for j := range 1000 {
			pairs = append(pairs, fmt.Sprintf("session:%d", i+j), "x")
		}
		if err := rdb.MSet(t.Context(), pairs...).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// calls returns how often a server has run a command.
func calls(t *testing.T, rdb *redis.Client, command string) (n int) {
	t.Helper()
	info, err := rdb.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if _, err := fmt.Sscanf(line, "cmdstat_"+command+":calls=%d", &n); err == nil {
			return n
		}
	}
	return 0
}

// abandon sends concurrent requests and cancels each after a while. It returns when all have ended.
func (d *desk) abandon(after time.Duration, paths ...string) {
	var all sync.WaitGroup
	for _, path := range paths {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), after)
			defer cancel()
			d.page.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil).WithContext(ctx))
		})
	}
	all.Wait()
}

// A scan of 20,000 keys is 80 pages.
func TestOneScanServesAllViewers(t *testing.T) {
	t.Parallel()
	for what, path := range map[string]string{"keys": "/key?key=nobody:%d", "overviews": "/?q=%d", "servers": "/redis?x=%d"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newDeskOn(t, redistest.Redis(t))
			rdb := d.server.NewClient(t)
			fill(t, rdb, 20_000)
			var paths []string
			for i := range 50 {
				paths = append(paths, fmt.Sprintf(path, i))
			}
			usertest.Eventually(t, "a scan begins", 2*time.Minute, func() bool {
				d.abandon(500*time.Millisecond, paths...)
				return calls(t, rdb, "scan") > 0
			})
			time.Sleep(500 * time.Millisecond)
			if n := calls(t, rdb, "scan"); n > 500 {
				t.Errorf("fifty requests led to %d SCAN calls", n)
			}
		})
	}
}

func TestAReadPausesWithoutViewers(t *testing.T) {
	inBubble(t, func(d *desk) {
		busy := d.farAway()
		locks := d.client()
		for i := range 1200 {
			usertest.Lock(d, d.Context(), locks, fmt.Sprintf("item:%d", i), lockmw.WithFixedLease(time.Hour))
		}
		d.abandon(time.Second, "/")
		synctest.Wait()
		time.Sleep(time.Second) // one command may still be running
		before := busy.Load()
		time.Sleep(20 * time.Second)
		if asked := time.Duration(busy.Load() - before); asked != 0 {
			d.Errorf("the server was asked for %v after the last viewer had gone", asked)
		}
	})
}

// Each key that is viewed has to be read once. A read takes 30 ms here.
func TestFirstReadsKeepToTheShare(t *testing.T) {
	inBubble(t, func(d *desk) {
		busy := d.farAway()
		began := time.Now()
		for i := range 600 {
			d.abandon(100*time.Millisecond, fmt.Sprintf("/key?key=nobody:%d", i))
		}
		if share := float64(busy.Load()) / float64(time.Since(began)); share > 0.04 { // 1.25 % for first reads, as much for the rest, and connections
			d.Errorf("the server was asked for %.2f %% of the time", 100*share)
		}
		d.get("/key?key=nobody:7", http.StatusOK) // later
	})
}

func TestFewFirstReadsRunSideBySide(t *testing.T) {
	inBubble(t, func(d *desk) {
		_, most := d.farAwayTogether()
		var paths []string
		for i := range 50 {
			paths = append(paths, fmt.Sprintf("/key?key=nobody:%d", i))
		}
		d.abandon(time.Second, paths...)
		if n := most.Load(); n > 8 {
			d.Errorf("%d commands were sent side by side", n)
		}
	})
}

// A server that was silent, and viewers who have left, have kept no server busy.
func TestPagesComeSoonAfterFirstReadsThatAnsweredNothing(t *testing.T) {
	soon := func(d *desk) {
		d.Helper()
		began := time.Now()
		d.get("/key?key=user:42", http.StatusOK)
		if took := time.Since(began); took > 10*time.Second {
			d.Errorf("the page came after %v", took)
		}
	}
	inBubble(t, func(d *desk) {
		wire := d.server.NewWire()
		d.through(wire.Use, func(o *redis.Options) { o.ReadTimeout, o.MaxRetries = 2*time.Second, -1 })
		d.get("/", http.StatusOK)
		wire.Silence()
		d.abandon(10*time.Second, "/live?page=key&key=user:1", "/live?page=key&key=user:2", "/live?page=key&key=user:3")
		wire.Restore()
		soon(d)
	})
	inBubble(t, func(d *desk) {
		d.farAway()
		d.leave("dead:1", "", time.Hour)
		d.get("/process", http.StatusOK)
		for i := range 3 {
			d.abandon(10*time.Millisecond, "/live?page=process&process="+dead[:len(dead)-i]) // the process, and its host
			time.Sleep(time.Second)
		}
		soon(d)
	})
}

// Each entry of the stream is read once, however many keys are viewed.
func TestOneReadingOfTheHistoryServesAllKeys(t *testing.T) {
	d := newDeskOn(t, redistest.Redis(t))
	rdb := d.server.NewClient(t)
	for i := range 1000 {
		line := fmt.Sprintf(`{"at_us":%d,"event":"acquired","key":"item:%d"}`, 1+i, i)
		if err := rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "lockmw:events", Values: []any{"process", "web:1", "events", line}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	for i := range 20 {
		d.await(fmt.Sprintf("/key.json?key=item:%d", i), `"event": "acquired"`)
	}
	n := calls(t, rdb, "xrevrange")
	if most := 20 + int(time.Since(began)/(2*time.Second)); n > most { // the history is read again every 2 s
		t.Errorf("twenty keys led to %d XREVRANGE calls, want at most %d", n, most)
	}
}

func TestThePageShowsTheHistoryOfTheLastEvents(t *testing.T) {
	inBubble(t, func(d *desk) {
		rdb := d.server.NewClient(d)
		write := func(n int, key string) {
			for ; n > 0; n -= 250 {
				time.Sleep(time.Millisecond) // the next ones happen later
				line := fmt.Sprintf(`{"at_us":%d,"event":"acquired","key":"%s"}`+"\n", time.Now().UnixMicro(), key)
				if err := rdb.XAdd(d.Context(), &redis.XAddArgs{Stream: "lockmw:events", Values: []any{"process", "web:1", "events", strings.Repeat(line, min(n, 250))}}).Err(); err != nil {
					d.Fatal(err)
				}
			}
		}
		write(1, "user:1")
		write(10_000, "busy")
		write(1, "user:2")
		d.await("/key?key=user:1", "Recorded events, latest first")
		write(10_000, "busy")
		write(1, "user:3")
		d.await("/key?key=user:3", "Recorded events since <time")
		d.await("/key?key=user:2", "<h2>History</h2>")
		if page := d.get("/key?key=user:1", http.StatusOK); strings.Contains(page, "<h2>History</h2>") {
			d.Errorf("more than the last 20,000 events are kept:\n%s", page)
		}
		if n := strings.Count(d.get("/key.json?key=busy", http.StatusOK), `"event": "acquired"`); n != 20 {
			d.Errorf("%d events of a busy key", n)
		}
	})
}

// refused checks for an answer with Retry-After.
func (d *desk) refused(path string) {
	d.Helper()
	if w := d.do(http.MethodGet, path); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		d.Errorf("%s: %d, try again after %q", path, w.Code, w.Header().Get("Retry-After"))
	}
}

func TestStreamsHaveABound(t *testing.T) {
	inBubble(t, func(d *desk) {
		var all []*watcher
		for range 200 {
			all = append(all, d.watch("page=overview"))
		}
		synctest.Wait()
		d.refused("/live?page=overview")
		d.refused("/live?page=redis")
		d.get("/locks.json", http.StatusOK)
		all[7].cancel()
		synctest.Wait()
		d.watch("page=overview").until("No locks with prefix")
	})
}

func TestRequestsThatWaitForRedisHaveABound(t *testing.T) {
	inBubble(t, func(d *desk) {
		wire := d.server.NewWire()
		d.through(wire.Use)
		d.get("/", http.StatusOK)
		time.Sleep(time.Minute)
		wire.Silence()
		var paths []string
		for i := range 100 {
			paths = append(paths, fmt.Sprintf("/?q=%d", i))
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			d.abandon(time.Minute, paths...)
		}()
		synctest.Wait()
		began := time.Now()
		for _, path := range []string{"/", "/key?key=user:42", "/redis.json"} {
			d.refused(path)
		}
		if took := time.Since(began); took != 0 {
			d.Errorf("it took %v to refuse them", took)
		}
		<-done
		wire.Restore()
		time.Sleep(time.Minute)
		d.get("/", http.StatusOK)
	})
}

// The duration of a cancelled read does not count as load of the server.
func TestASilentServerIsReadSoonAfterwards(t *testing.T) {
	inBubble(t, func(d *desk) {
		wire := d.server.NewWire()
		d.through(wire.Use, func(o *redis.Options) { o.ReadTimeout, o.MaxRetries = time.Hour, -1 })
		d.get("/redis", http.StatusOK)
		time.Sleep(time.Minute)
		wire.Silence()
		d.abandon(4*time.Second, "/")
		time.Sleep(2 * time.Minute)
		wire.Restore()
		began := time.Now()
		d.get("/", http.StatusOK)
		if took := time.Since(began); took > 10*time.Second {
			d.Errorf("it took %v", took)
		}
	})
}
