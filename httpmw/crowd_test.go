package httpmw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

const crowd = 1000

// Scenario 31. Not parallel: it counts the goroutines of the program.
func TestAThousandRequestsAtOneKeyAreAllAnswered(t *testing.T) {
	const pool = 8
	s := redistest.Redis(t)
	locks := usertest.ClientOf(t, s.NewClient(t, func(opts *redis.Options) { opts.PoolSize, opts.ClientName = pool, "locks" }))
	other := usertest.Client(t, s)
	admin := s.NewClient(t)

	// All requests pass through the site's handler; requests to /free stay there.
	var arrived, inside, served atomic.Int64
	gone := make(chan struct{})
	leave := sync.OnceFunc(func() { close(gone) })
	work := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := inside.Add(1); n != 1 {
			t.Errorf("%d handlers run at the same time", n)
		}
		served.Add(1)
		inside.Add(-1)
		w.WriteHeader(http.StatusCreated)
	})
	mux := http.NewServeMux()
	mux.HandleFunc("/free", func(http.ResponseWriter, *http.Request) { <-gone })
	mux.Handle("/long", httpmw.WithLock(locks, secretUser, lockmw.WithWait(2*patience))(work))
	mux.Handle("/short", httpmw.WithLock(locks, secretUser, lockmw.WithWait(300*time.Millisecond))(never(t)))
	site := webtest.NewSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived.Add(1)
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(leave)

	// all sends the requests, calls during when all have arrived, and returns how often each status was received.
	all := func(path string, during func()) map[int]int {
		arrived.Store(0)
		statuses := make(chan int, crowd)
		var wg sync.WaitGroup
		for range crowd {
			wg.Go(func() { statuses <- site.Request(t, http.MethodPost, path).Status })
		}
		usertest.Eventually(t, "all requests arrive", 2*patience, func() bool { return arrived.Load() == crowd })
		during()
		wg.Wait()
		close(statuses)
		counts := make(map[int]int)
		for status := range statuses {
			counts[status]++
		}
		return counts
	}

	before := runtime.NumGoroutine()
	var without int
	all("/free", func() {
		without = runtime.NumGoroutine()
		leave()
	})

	release := usertest.Occupy(t, other, "user:secret-42")
	got := all("/long", func() {
		usertest.Eventually(t, "the process has one ticket for all requests", patience, func() bool { return queued(t, s, "user:secret-42") == 1 })
		const few = 30
		usertest.Eventually(t, "hardly more goroutines than without a lock", patience, func() bool { return runtime.NumGoroutine() <= without+few })
		t.Logf("%d goroutines wait for the lock, %d without it", runtime.NumGoroutine(), without)
		release()
	})
	if got[http.StatusCreated] != crowd || served.Load() != crowd {
		t.Errorf("statuses %v and %d handled, want %d with 201", got, served.Load(), crowd)
	}
	if n := connections(t, admin, "locks"); n == 0 || n > pool+1 {
		t.Errorf("%d connections to Redis, want at most the pool's %d and one for Pub/Sub", n, pool)
	}

	usertest.Occupy(t, other, "user:secret-42")
	if got := all("/short", func() {}); got[http.StatusServiceUnavailable] != crowd {
		t.Errorf("statuses %v, want %d with 503", got, crowd)
	}
	usertest.Eventually(t, "no ticket is left", patience, func() bool { return queued(t, s, "user:secret-42") == 0 })
	site.Client().CloseIdleConnections()
	const kept = 40 // connections to Redis and the goroutines that serve them
	usertest.Eventually(t, "the goroutines are gone", patience, func() bool { return runtime.NumGoroutine() <= before+kept })
}

// connections counts the connections of the clients with this name.
func connections(t *testing.T, rdb *redis.Client, name string) int {
	t.Helper()
	list, err := rdb.ClientList(context.Background()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(list, " name="+name+" ")
}

// BenchmarkCrowd sends a thousand requests for one key together and measures the time of all of them.
func BenchmarkCrowd(b *testing.B) {
	for name, locker := range map[string]func() lockmw.Locker{
		"Local": func() lockmw.Locker { return lockmw.NewLocal() },
		"Redis": func() lockmw.Locker { return usertest.Client(b, redistest.Redis(b)) },
	} {
		b.Run(name, func(b *testing.B) {
			h := httpmw.WithLock(locker(), user42, lockmw.WithWait(time.Minute))(ok)
			b.ReportAllocs()
			for b.Loop() {
				var all sync.WaitGroup
				for range crowd {
					all.Go(func() {
						if rec := post(h, "/"); rec.Code != http.StatusCreated {
							b.Errorf("status %d: %s", rec.Code, rec.Body)
						}
					})
				}
				all.Wait()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(crowd*b.N), "µs/request")
		})
	}
}

// BenchmarkServer measures one request over TCP, without a lock and with one.
func BenchmarkServer(b *testing.B) {
	for name, h := range map[string]http.Handler{
		"without": quiet,
		"Local":   httpmw.WithLock(lockmw.NewLocal(), user42, lockmw.WithWait(time.Second))(quiet),
		"Redis":   httpmw.WithLock(usertest.Client(b, redistest.Redis(b)), user42, lockmw.WithWait(time.Second))(quiet),
	} {
		b.Run(name, func(b *testing.B) {
			srv := httptest.NewServer(h)
			defer srv.Close()
			client := srv.Client()
			b.ReportAllocs()
			for b.Loop() {
				resp, err := client.Get(srv.URL)
				if err != nil {
					b.Fatal(err)
				}
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					b.Fatal(fmt.Errorf("status %d", resp.StatusCode))
				}
			}
		})
	}
}
