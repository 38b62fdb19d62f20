package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockmw/go/examples/internal/redisserver"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

// w3c carries the trace from one program to the next.
var w3c = propagation.TraceContext{}

// takes is how long work on an item takes. Work on item 7 begins to take that long when the next one waits.
const takes = 100 * time.Millisecond

// A scene lets a request, a job and a message wait for item 7, each for the one before it. The first holder is a task.
type scene struct {
	redis  *redisserver.Server
	tracer *sdktrace.TracerProvider
	log    journal
	ends   []func() error

	begun  chan string   // receives the name of each work on item 7 when it begins
	waits  chan struct{} // receives a value when a call begins to wait
	onward chan struct{} // is closed when no more work comes
}

func newScene(out io.Writer, tracer *sdktrace.TracerProvider) *scene {
	return &scene{
		tracer: tracer, log: journal{out: out, start: time.Now()},
		begun: make(chan string, 10), waits: make(chan struct{}, 10), onward: make(chan struct{}),
	}
}

// atEnd notes what to do at the end of the scene, last things first.
func (s *scene) atEnd(f func() error) { s.ends = append(s.ends, f) }

func (s *scene) close() (err error) {
	for _, end := range slices.Backward(s.ends) {
		err = errors.Join(err, end())
	}
	return err
}

// openLocks starts the embedded Redis and returns the locks, which report their waits and holds as spans.
func (s *scene) openLocks(ctx context.Context) (locks *lockmw.Client, err error) {
	if s.redis, err = redisserver.Open(ctx, nil, ""); err != nil {
		return nil, err
	}
	s.atEnd(s.redis.Close)
	waiting := &lockmw.Observer{Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { s.waits <- struct{}{} }}
	locks, err = lockmw.New(s.redis.Client,
		lockmw.WithObserver(tracing.New(tracing.WithTracerProvider(s.tracer))), lockmw.WithObserver(waiting))
	if err == nil {
		s.atEnd(locks.Close)
	}
	return locks, err
}

// play opens the shop, and plays the scene in one trace.
func (s *scene) play(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the scene took too long"))
	defer cancel()
	ctx, span := s.tracer.Tracer("onekey").Start(ctx, "scene")
	defer span.End()
	defer func() { err = errors.Join(err, s.close()) }() // waits for the work that has begun
	locks, err := s.openLocks(ctx)
	if err != nil {
		return err
	}
	sell := s.openShop(locks)
	restockItem, err := s.openTasks(locks)
	if err != nil {
		return err
	}
	repriceItem, err := s.openJobs(ctx, locks)
	if err != nil {
		return err
	}
	ship := s.openStream(locks)
	return s.meet(ctx, sell, restockItem, repriceItem, ship)
}

// An action begins work on an item. A sale has ended when it returns; the others have only been put into a queue.
type action func(ctx context.Context, item string) error

func (s *scene) meet(ctx context.Context, sell, restockItem, repriceItem, ship action) error {
	defer close(s.onward)
	if err := restockItem(ctx, "7"); err != nil {
		return err
	}
	if err := s.await(ctx, "task"); err != nil {
		return err
	}
	if err := sell(ctx, "8"); err != nil { // nobody else works on item 8
		return err
	}
	sold := make(chan error, 1)
	go func() { sold <- sell(ctx, "7") }()
	if err := s.await(ctx, "request"); err != nil {
		return err
	}
	if err := repriceItem(ctx, "7"); err != nil {
		return err
	}
	if err := s.await(ctx, "job"); err != nil {
		return err
	}
	if err := ship(ctx, "7"); err != nil {
		return err
	}
	if err := s.await(ctx, "message"); err != nil {
		return err
	}
	return <-sold
}

// await waits until work on item 7 begins.
func (s *scene) await(ctx context.Context, who string) error {
	select {
	case began := <-s.begun:
		if began != who {
			return fmt.Errorf("%s has begun, not %s", began, who)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the %s: %w", who, context.Cause(ctx))
	}
}

// work does some work on an item, in a span. On item 7 it waits for the next one to come.
func (s *scene) work(ctx context.Context, who, does, item string) {
	ctx, span := s.tracer.Tracer("onekey").Start(ctx, who+" "+does+" item "+item)
	defer span.End()
	s.log.add(who, does, item)
	defer s.log.add(who, "is done with", item)
	if item != "7" {
		return
	}
	s.begun <- who
	select {
	case <-s.waits:
	case <-s.onward:
	case <-ctx.Done():
	}
	time.Sleep(takes)
}

// A journal prints events in order.
type journal struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
}

func (j *journal) add(who, does, item string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, _ = fmt.Fprintf(j.out, "%4d ms  %-7s %s item %s\n", time.Since(j.start).Milliseconds(), who, does, item)
}
