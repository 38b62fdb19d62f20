package lockevents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// An Option configures a Recorder.
type Option func(*config)

type config struct {
	length int64
	logger *slog.Logger
}

// MaxLength is the greatest length for WithLength.
const MaxLength = 1_000_000

// WithLength sets about how many entries the stream keeps: Redis drops the oldest ones. From 1 to MaxLength; default 2000. An
// entry contains the events of one process from 20 ms: from 1 to 256 events of about 150 bytes each.
func WithLength(entries int) Option { return func(c *config) { c.length = int64(entries) } }

// WithLogger sets the logger for events that cannot be written. Default: slog.Default().
func WithLogger(logger *slog.Logger) Option { return func(c *config) { c.logger = logger } }

// streamOf returns the key of the stream for the locks that an Inspector shows.
func streamOf(i *lockmw.Inspector) string { return i.Prefix() + ":events" }

const (
	every        = 20 * time.Millisecond // between two entries of a process
	maxEvents    = 256                   // in an entry
	maxFrequent  = maxEvents * 3 / 4     // frequent events are dropped when an entry has that many events
	writeTimeout = 2 * time.Second
	kept         = 7 * 24 * time.Hour // after the last event
)

// A Recorder writes events to the stream in Redis. Safe for concurrent use.
type Recorder struct {
	config
	rdb     redis.UniversalClient
	stream  string
	process string
	limit   loglimit.Limit

	mu      sync.Mutex
	pending []Event
	dropped int
	closing error // of a write after Close began
	writing bool  // an entry is being written, or about to be
	closed  bool
	idle    sync.Cond // writing has become false
}

// New returns a Recorder. It uses the redis client and the prefix of the Inspector, and sends nothing until there is an event.
// New panics if the Inspector is nil or an option is invalid.
func New(insp *lockmw.Inspector, opts ...Option) *Recorder {
	option.NotNil(insp, "lockevents: New: the Inspector is nil")
	r := &Recorder{config: config{length: 2000, logger: slog.Default()}, rdb: insp.Redis(), stream: streamOf(insp)}
	option.Apply(&r.config, "lockevents: New", opts)
	switch {
	case r.length < 1 || r.length > MaxLength:
		panic(fmt.Sprintf("lockevents: New: WithLength(%d), must be from 1 to %d", r.length, MaxLength))
	case r.logger == nil:
		panic("lockevents: New: WithLogger(nil)")
	}
	r.process = core.ProcessName()
	r.idle.L = &r.mu
	return r
}

func (r *Recorder) mustBeMade() { option.NotNil(r.rdb, "lockevents: the Recorder was not made by New") }

// record buffers an event. It never waits for Redis.
func (r *Recorder) record(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.pending)
	if r.closed || n >= maxEvents || n >= maxFrequent && e.Kind.isFrequent() {
		r.dropped++
		return
	}
	e.At = time.Now()
	r.pending = append(r.pending, e)
	if !r.writing {
		r.writing = true
		time.AfterFunc(every, r.write)
	}
}

// write writes the buffered events. If more have come meanwhile, it runs again after every.
func (r *Recorder) write() {
	r.mu.Lock()
	defer r.mu.Unlock()
	events, dropped := r.pending, r.dropped
	r.pending, r.dropped = nil, 0
	r.mu.Unlock()
	err := r.send(context.Background(), events, dropped)
	if err != nil {
		r.warn(err)
	}
	r.mu.Lock()
	if err != nil {
		r.dropped += len(events) + dropped
		if r.closed {
			r.closing = err
		}
	}
	if len(r.pending) > 0 && !r.closed {
		time.AfterFunc(every, r.write)
		return
	}
	r.writing = false
	r.idle.Broadcast()
}

func (r *Recorder) warn(err error) {
	if missed, ok := r.limit.Allow(loglimit.KindOf(err)); ok {
		r.logger.Warn("lockevents: events of locks cannot be written", "key", r.stream, "error", err, "suppressed", missed)
	}
}

// send writes the events as one entry.
func (r *Recorder) send(ctx context.Context, events []Event, dropped int) error {
	r.mustBeMade()
	if len(events) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	values := []any{"process", r.process, "events", encode(events)}
	if dropped > 0 {
		values = append(values, "dropped", dropped)
	}
	result := make(chan error, 1)
	go func() { // go-redis may wait longer for an answer
		_, err := r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.XAdd(ctx, &redis.XAddArgs{Stream: r.stream, MaxLen: r.length, Approx: true, Values: values})
			p.PExpire(ctx, r.stream, kept)
			return nil
		})
		result <- err
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("lockevents: Redis has not answered: %w", ctx.Err())
	}
}

// Close writes the buffered events, and returns their error if that fails. It takes a few seconds at most. Close it after the
// last Client: later events are dropped. Close may be called again.
func (r *Recorder) Close() error {
	r.mu.Lock()
	r.closed = true
	for r.writing {
		r.idle.Wait()
	}
	events, dropped, lost := r.pending, r.dropped, r.closing
	r.pending, r.dropped, r.closing = nil, 0, nil
	r.mu.Unlock()
	return errors.Join(lost, r.send(context.Background(), events, dropped))
}

// A Taken is a hold that an operator has released by force.
type Taken struct {
	Key    string
	Mode   string        // of the lock: exclusive, fair, read, write or permit
	Holder lockmw.Holder // as returned by lockmw.Inspector
}

// maxBy is how many bytes of an operator's name are recorded.
const maxBy = 128

// ForceUnlocked records that an operator has released holds with lockmw.Inspector.ForceUnlock. by is the name of the operator, or
// "page" or "command" if it is unknown; at most 128 bytes of it are recorded. Unlike other events, these are never dropped, and
// are written before ForceUnlocked returns. An error is from Redis or from ctx.
func (r *Recorder) ForceUnlocked(ctx context.Context, by string, taken ...Taken) error {
	now := time.Now()
	by = strings.ToValidUTF8(by[:min(len(by), maxBy)], "")
	var err error
	for some := range slices.Chunk(taken, maxEvents) {
		events := make([]Event, len(some))
		for i := range some {
			t := &some[i]
			h := &t.Holder
			events[i] = Event{
				At: now, Kind: Forced, Key: t.Key, Mode: t.Mode, Label: h.Label, Token: h.Token, Held: max(now.Sub(h.Since), 0), By: by,
				Behind: Behind{Process: h.Process, Label: h.Label, Token: h.Token},
			}
		}
		err = errors.Join(err, r.send(ctx, events, 0))
	}
	return err
}
