package main

import (
	"context"
	"errors"
	"log/slog"
	"math"
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

// A scene is a server with the page, and locks that processes hold and wait for.
type scene struct {
	site    *httptest.Server
	mini    *miniredis.Miniredis
	clients []*lockmw.Client
	events  *lockevents.Recorder
	holds   []*lockmw.Hold // keeps the holds: a hold without a reference would end
	failed  error          // the errors of taking locks
	trade   sync.WaitGroup
	cancel  context.CancelFunc
	names   []string // the processes' names, and their names in the pictures
}

// newScene takes the locks that exist when the page is opened. The page stays open for that long.
func newScene(ctx context.Context, open time.Duration) (_ *scene, err error) {
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
	for _, name := range []string{"web-1:4711:5f0c2a81", "web-3:4702:c81d03be", "worker-2:310:77e0914a", "billing-1:88:20b6e3fd"} {
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
	if err := s.take(ctx, open); err != nil {
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

// take takes the locks that are as old as the page, or older. When its pictures are taken, the page has been open for that
// long.
func (s *scene) take(ctx context.Context, open time.Duration) error {
	web1, web3, worker, billing := s.clients[0], s.clients[1], s.clients[2], s.clients[3]
	back := func(age time.Duration) { s.mini.SetTime(time.Now().Add(open - age)) } // only exclusive locks: their leases are TTLs, which do not move with the clock
	back(max(open, 3*time.Hour+12*time.Minute))
	s.lock(ctx, billing, "lead:billing")
	back(max(open, 26*time.Minute))
	s.lock(ctx, billing, "import:acme", lockmw.WithLabel("task-1874"))
	s.mini.SetTime(time.Time{})
	s.lock(ctx, rwlock.New(web1).RLocker(), "catalogue:eu", lockmw.WithLabel("req-71be"))
	s.lock(ctx, rwlock.New(web3).RLocker(), "catalogue:eu", lockmw.WithLabel("req-c04d"))
	for i, c := range s.clients[:3] { // for the trends
		s.trade.Go(func() { s.sell(ctx, c, time.Duration(40+30*i)*time.Millisecond) })
	}
	s.lock(ctx, semaphore.New(worker, 3), "export:tenant-7", lockmw.WithLabel("task-1902"))
	return s.failed
}

// arrive makes calls come in one after the other; a step is the length of a second.
func (s *scene) arrive(ctx context.Context, step time.Duration) error {
	ctx, leave := context.WithCancel(ctx)
	before := s.cancel
	s.cancel = func() { leave(); before() }
	web1, web3, worker := s.clients[0], s.clients[1], s.clients[2]
	pass := func(seconds float64) { pause.For(ctx, time.Duration(seconds*float64(step))) }
	s.lock(ctx, fairlock.New(worker), "invoice:1187", lockmw.WithLabel("task-1911"))
	pass(17)
	s.lock(ctx, web3, "order:10023", lockmw.WithLabel("req-8f21"))
	pass(2)
	s.wait(ctx, web1, "order:10023", "req-9a02")
	if hold := s.lock(ctx, web1, "click:user:42", lockmw.WithMinHold(5*time.Minute)); hold != nil {
		s.failed = errors.Join(s.failed, hold.Unlock())
	}
	pass(3)
	s.wait(ctx, worker, "order:10023", "task-1913")
	s.lock(ctx, semaphore.New(web1, 3), "export:tenant-7", lockmw.WithLabel("req-9a3e"))
	pass(2)
	s.wait(ctx, web1, "order:10023", "req-9b77")
	s.wait(ctx, fairlock.New(web1), "invoice:1187", "req-77aa")
	pass(2)
	s.wait(ctx, web3, "order:10023", "req-9c10")
	s.lock(ctx, web3, "user:42", lockmw.WithLabel("req-9c15"))
	pass(2.5) // until a process has reported its waiters
	return s.failed
}

func (s *scene) lock(ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) *lockmw.Hold {
	_, hold, err := l.Lock(ctx, key, opts...)
	s.failed = errors.Join(s.failed, err)
	s.holds = append(s.holds, hold)
	return hold
}

// wait makes a call wait for a key until ctx ends, and returns when the call waits.
func (s *scene) wait(ctx context.Context, l lockmw.Locker, key, label string) {
	queued := make(chan struct{})
	contended := lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { close(queued) },
	})
	go func() { _, _, _ = l.Lock(ctx, key, lockmw.WithLabel(label), contended) }()
	select {
	case <-queued:
	case <-ctx.Done():
		s.failed = errors.Join(s.failed, ctx.Err())
	}
}

// sell takes and releases one lock until ctx ends, and holds it for varying times.
func (s *scene) sell(ctx context.Context, c *lockmw.Client, held time.Duration) {
	for began := time.Now(); ctx.Err() == nil; {
		if _, hold, err := c.Lock(ctx, "stock:8812", lockmw.WithLabel("checkout")); err == nil {
			pause.For(ctx, time.Duration(float64(held)*(1.6+math.Sin(time.Since(began).Seconds()/9))))
			_ = hold.Unlock()
		}
	}
}

// renamed replaces the processes' names in h by fixed names, which do not depend on this machine.
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
