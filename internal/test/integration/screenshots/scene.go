package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/inspector"
	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/lockevents"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/semaphore"
)

// A scene is a server with the page, and locks that some processes have and want.
type scene struct {
	site    *httptest.Server
	mini    *miniredis.Miniredis
	clients []*lockmw.Client
	events  *lockevents.Recorder
	holds   []*lockmw.Hold // a hold that nobody refers to would end
	trade   sync.WaitGroup
	cancel  context.CancelFunc
	names   []string // of processes: what they are called, and what they are called in the pictures
}

// newScene takes the locks. They are all taken when it returns.
func newScene(ctx context.Context) (_ *scene, err error) {
	s := &scene{mini: miniredis.NewMiniRedis()}
	if err := s.mini.Start(); err != nil {
		return nil, err
	}
	ctx, s.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	dial := func() *redis.Client { return redis.NewClient(&redis.Options{Addr: s.mini.Addr()}) }
	insp, err := lockmw.NewInspector(dial())
	if err != nil {
		return nil, err
	}
	s.events = lockevents.New(insp)
	for _, name := range []string{"web-1:4711:5f0c2a81", "web-2:4702:c81d03be", "worker-1:310:77e0914a"} {
		c, err := lockmw.New(dial(), lockmw.WithLogger(slog.New(slog.DiscardHandler)), lockmw.WithObserver(s.events.Observer()))
		if err != nil {
			return nil, err
		}
		s.clients = append(s.clients, c)
		_, hold, err := c.Lock(ctx, "who am I")
		if err != nil {
			return nil, err
		}
		status, err := insp.Get(ctx, "who am I")
		if err := errors.Join(err, hold.Unlock()); err != nil {
			return nil, err
		}
		s.names = append(s.names, status.Holders[0].Process, name)
	}
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	page := inspector.Handler(insp, inspector.WithForceUnlock(func(*http.Request) bool { return true }))
	s.site = httptest.NewServer(s.renamed(page))
	return s, nil
}

func (s *scene) close() {
	if s.site != nil {
		s.site.CloseClientConnections()
		s.site.Close()
	}
	s.cancel()
	s.trade.Wait()
	for _, c := range s.clients {
		_ = c.Close()
	}
	if s.events != nil {
		_ = s.events.Close()
	}
	s.mini.Close()
}

// take has the processes hold locks, and wait for some.
func (s *scene) take(ctx context.Context) error {
	web1, web2, worker := s.clients[0], s.clients[1], s.clients[2]
	var failed error
	lock := func(l lockmw.Locker, key string, opts ...lockmw.Option) *lockmw.Hold {
		_, hold, err := l.Lock(ctx, key, opts...)
		failed = errors.Join(failed, err)
		s.holds = append(s.holds, hold)
		return hold
	}
	lock(web1, "user:42", lockmw.WithLabel("req-8f21"))
	lock(web2, "user:7")
	lock(fairlock.New(worker), "invoice:2031", lockmw.WithLabel("task-551"))
	lock(rwlock.New(web1).RLocker(), "catalogue:eu")
	lock(rwlock.New(web2).RLocker(), "catalogue:eu")
	lock(semaphore.New(worker, 3), "export:pdf", lockmw.WithLabel("task-552"))
	lock(web2, "session:9c1f")
	lock(worker, "order:10023", lockmw.WithLabel("task-560"))
	lock(worker, `search:<b>"räksmörgås"</b>`)
	if hold := lock(web1, "click:checkout", lockmw.WithMinHold(10*time.Minute)); hold != nil {
		failed = errors.Join(failed, hold.Unlock())
	}
	wait := func(l lockmw.Locker, key, label string) {
		queued := make(chan struct{})
		contended := lockmw.WithObserver(&lockmw.Observer{
			Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { close(queued) },
		})
		go func() { _, _, _ = l.Lock(ctx, key, lockmw.WithLabel(label), contended) }() // until ctx ends
		select {
		case <-queued:
		case <-ctx.Done():
			failed = errors.Join(failed, ctx.Err())
		}
	}
	wait(web2, "user:42", "req-9a02")
	wait(web2, "user:42", "req-9a05")
	wait(worker, "user:42", "task-548")
	wait(web1, "user:42", "req-9b77")
	wait(fairlock.New(web1), "invoice:2031", "req-77aa")
	for i, c := range s.clients { // for the trends
		s.trade.Go(func() { s.sell(ctx, c, time.Duration(40+30*i)*time.Millisecond) })
	}
	return failed
}

// sell takes and releases one lock until ctx ends, for longer and longer.
func (s *scene) sell(ctx context.Context, c *lockmw.Client, held time.Duration) {
	for began := time.Now(); ctx.Err() == nil; {
		if _, hold, err := c.Lock(ctx, "stock:17", lockmw.WithLabel("order")); err == nil {
			pause.For(ctx, held+time.Since(began)/200)
			_ = hold.Unlock()
		}
	}
}

// renamed calls the processes in everything that h says by names that stay the same, and are not those of this machine.
func (s *scene) renamed(h http.Handler) http.Handler {
	replacer := strings.NewReplacer(s.names...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(&renamer{w, replacer}, r) })
}

type renamer struct {
	http.ResponseWriter
	names *strings.Replacer
}

func (r *renamer) Write(b []byte) (int, error) {
	_, err := r.ResponseWriter.Write([]byte(r.names.Replace(string(b))))
	return len(b), err
}

func (r *renamer) Unwrap() http.ResponseWriter { return r.ResponseWriter }
