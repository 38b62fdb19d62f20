package shop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/lockmw/go/examples/internal/web"
	"github.com/lockmw/go/examples/stock/internal/books"
	"github.com/lockmw/go/examples/stock/internal/ways"
)

// Live runs a shop in its process. It ends when the commands end.
func Live(spec Spec, commands *json.Decoder, reports *json.Encoder) error {
	// Ctrl-C reaches all processes of a terminal. This process ends when its parent tells it to.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
	s := &server{reports: reports, stopped: make(map[string]chan struct{})}
	err := s.open(spec)
	if err != nil {
		return errors.Join(s.report(report{Err: err.Error()}), s.close())
	}
	for {
		var c command
		if err := commands.Decode(&c); err != nil {
			return errors.Join(err, s.close())
		}
		s.goOn(c.GoOn)
	}
}

type server struct {
	buy     ways.Buy
	closers []func() error

	mu      sync.Mutex
	reports *json.Encoder
	stopped map[string]chan struct{} // by user
}

func (s *server) open(spec Spec) error {
	i := slices.IndexFunc(ways.All(), func(w ways.Way) bool { return w.Name == spec.Way })
	if i < 0 {
		return fmt.Errorf("unknown way %q", spec.Way)
	}
	env, err := ways.NewEnv(context.Background(), spec.Place)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, env.Close)
	env.Stopper = s.stopper
	if s.buy, err = ways.All()[i].Open(env); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.order)
	stop := web.Serve(listener, mux)
	s.closers = append(s.closers, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return stop(ctx)
	})
	return s.report(report{URL: "http://" + listener.Addr().String()})
}

func (s *server) close() error {
	var err error
	for _, f := range slices.Backward(s.closers) {
		err = errors.Join(err, f())
	}
	return err
}

func (s *server) report(r report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reports.Encode(r)
}

// stopper returns a function that blocks the work for a user until a command releases it.
func (s *server) stopper(user string) func(context.Context) error {
	return func(ctx context.Context) error {
		release := make(chan struct{})
		s.mu.Lock()
		s.stopped[user] = release
		s.mu.Unlock()
		if err := s.report(report{Stopped: user}); err != nil {
			return err
		}
		select {
		case <-release:
			return nil
		case <-ctx.Done(): // the caller has left, or the lock is lost
			return context.Cause(ctx)
		}
	}
}

func (s *server) goOn(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if release, ok := s.stopped[user]; ok {
		delete(s.stopped, user)
		close(release)
	}
}

func (s *server) order(w http.ResponseWriter, r *http.Request) {
	var o Order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&o); err != nil {
		answer(w, http.StatusBadRequest, Answer{Result: Failed, Why: err.Error()})
		return
	}
	c := &ways.Call{
		User: o.User, Item: o.Item, Key: r.Header.Get(keyHeader), Patience: o.Patience,
		Nested: o.Nested, LosesReply: o.LosesReply, StopAt: o.StopAt, Stop: s.stopper(o.User),
	}
	err := s.buy(r.Context(), c)
	a := Answer{Retries: c.Retries(), Receipt: c.Receipt, Replayed: c.Replayed}
	status := http.StatusConflict
	switch {
	case err == nil:
		status, a.Result = http.StatusCreated, Sold
	case errors.Is(err, ways.ErrSoldOut):
		a.Result = SoldOut
	case errors.Is(err, ways.ErrSecond):
		a.Result = Second
	case errors.Is(err, ways.ErrUnknown):
		a.Result = Unknown
	case errors.Is(err, ways.ErrNotKept):
		a.Result = NotKept
	case errors.Is(err, ways.ErrBusy):
		status, a.Result = http.StatusServiceUnavailable, Busy
	case errors.Is(err, ways.ErrLost):
		status, a.Result = http.StatusServiceUnavailable, Lost
	default:
		status, a.Result, a.Why = http.StatusInternalServerError, Failed, err.Error()
	}
	if errors.Is(err, books.ErrNoItem) {
		status = http.StatusNotFound
	}
	answer(w, status, a)
}

func answer(w http.ResponseWriter, status int, a Answer) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a) // fails only if the client has disconnected
}
