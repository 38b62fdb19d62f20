package workload

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/inspector"
	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/lockmw"
)

// withPage are workloads of one process, with and without viewers of the inspector's page in another process. The server has
// many other keys in both cases. They take turns.
func withPage(w Workload) []Workload {
	w.Processes, w.Runs, w.Group = 2, only("lockmw"), w.Name+"-page"
	w.Window = func(d time.Duration) time.Duration { return max(2*d, 2*viewing) }
	pairs := w.work
	withViewers := func(on bool) func(*Worker) error {
		return func(w *Worker) error {
			if w.Config.Index == 0 {
				return pairs(w)
			}
			return w.view(on)
		}
	}
	alone, on := w, w
	alone.Name, alone.work = w.Name+"-nopage", withViewers(false)
	on.Name, on.work = w.Name+"-page", withViewers(true)
	on.About += fmt.Sprintf("; %d viewers of unwatched keys leave the page after %v", viewers, viewing)
	return []Workload{alone, on}
}

const (
	viewers   = 50
	viewing   = 500 * time.Millisecond
	otherKeys = 200_000
)

// view requests pages for the window, if viewers are on, and reports how often the page has asked the server for keys.
func (w *Worker) view(on bool) error {
	rdb := redis.NewClient(&redis.Options{Addr: w.Config.Addr})
	defer rdb.Close()
	if err := fill(rdb, w.Key, otherKeys); err != nil {
		return err
	}
	scans := &counter{match: named("scan")}
	rdb.AddHook(scans)
	insp, err := lockmw.NewInspector(rdb)
	if err != nil {
		return err
	}
	page := inspector.Handler(insp)
	if err := w.start(); err != nil {
		return err
	}
	if !on {
		if err := library.Pause(context.Background(), w.Window); err != nil {
			return err
		}
		return w.finish(&Report{})
	}
	for n, end := 0, time.Now().Add(w.Window); time.Now().Before(end); n += viewers {
		var all sync.WaitGroup
		for i := range viewers {
			all.Go(func() { leaveEarly(page, fmt.Sprintf("/key?key=nobody:%d", n+i)) })
		}
		all.Wait()
	}
	return w.finish(&Report{More: map[string]float64{"scans_per_s": float64(scans.commands.Load()) / w.Window.Seconds()}})
}

// leaveEarly requests a page, and abandons the request.
func leaveEarly(page http.Handler, path string) {
	ctx, cancel := context.WithTimeout(context.Background(), viewing)
	defer cancel()
	page.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
	<-ctx.Done() // a viewer with an answer reads the page
}

// fill stores keys that are not locks.
func fill(rdb *redis.Client, prefix string, n int) error {
	const atOnce = 1000
	for i := 0; i < n; i += atOnce {
		pairs := make([]any, 0, 2*atOnce)
		for j := range atOnce {
			pairs = append(pairs, fmt.Sprintf("%s:session:%d", prefix, i+j), "x")
		}
		if err := rdb.MSet(context.Background(), pairs...).Err(); err != nil {
			return fmt.Errorf("storing other keys: %w", err)
		}
	}
	return nil
}
