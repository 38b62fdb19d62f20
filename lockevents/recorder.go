package lockevents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// An Option changes how events are kept.
type Option func(*config)

type config struct {
	length int64
	logger *slog.Logger
}

// MaxLength is the most that WithLength takes.
const MaxLength = 1_000_000

// WithLength sets how many entries the stream has, about: Redis drops the oldest ones. Default 2000, from 1 to MaxLength. An entry is what
// one process saw in 20 ms, from one event of 150 bytes to 256 of them.
func WithLength(entries int) Option { return func(c *config) { c.length = int64(entries) } }

// WithLogger sets who is told that events cannot be written, slog.Default() by default.
func WithLogger(logger *slog.Logger) Option { return func(c *config) { c.logger = logger } }

// streamOf returns the key of the events of the locks that an Inspector looks at.
func streamOf(i *lockmw.Inspector) string { return i.Prefix() + ":events" }

const (
	every    = 20 * time.Millisecond // between two entries of a process
	most     = 256                   // events in an entry
	mostBusy = most * 3 / 4          // of which so many may be usual ones
	patience = 2 * time.Second       // with the server
	kept     = 7 * 24 * time.Hour    // after the last event
)

// A Recorder writes events. Safe for concurrent use.
type Recorder struct {
	config
	rdb     redis.UniversalClient
	stream  string
	process string
	limit   loglimit.Limit

	mu      sync.Mutex
	pending []Event
	dropped int
	writing bool // an entry is being written, or about to be
	closed  bool
	idle    sync.Cond // writing is over
}

// New returns a Recorder, which sends nothing until there is an event. It writes to the redis client of an Inspector, next to
// the locks with its prefix. It panics if the Inspector is nil or an option is invalid.
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
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	r.process = fmt.Sprintf("%s:%d", host, os.Getpid())
	r.idle.L = &r.mu
	return r
}

// record takes an event. It never waits.
func (r *Recorder) record(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.pending)
	if r.closed || n >= most || n >= mostBusy && e.Kind.isUsual() {
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

// write writes what has come, and again after a while if more has.
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

// send writes an entry.
func (r *Recorder) send(ctx context.Context, events []Event, dropped int) error {
	option.NotNil(r.rdb, "lockevents: the Recorder was not made by New")
	if len(events) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	values := []any{"process", r.process, "events", encode(events)}
	if dropped > 0 {
		values = append(values, "dropped", dropped)
	}
	_, err := r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.XAdd(ctx, &redis.XAddArgs{Stream: r.stream, MaxLen: r.length, Approx: true, Values: values})
		p.PExpire(ctx, r.stream, kept)
		return nil
	})
	return err
}

// Close writes what has come, and returns within some seconds. Events that come later are dropped. It returns why the last ones
// could not be written. Close may be called again.
func (r *Recorder) Close() error {
	r.mu.Lock()
	r.closed = true
	for r.writing {
		r.idle.Wait()
	}
	events, dropped := r.pending, r.dropped
	r.pending, r.dropped = nil, 0
	r.mu.Unlock()
	return r.send(context.Background(), events, dropped)
}

// A Taken is a hold that an operator has released by force.
type Taken struct {
	Key    string
	Mode   string        // of the lock: exclusive, fair, read, write or permit
	Holder lockmw.Holder // as lockmw.Inspector returned it
}

// mostBy is how many bytes of an operator's name are recorded.
const mostBy = 128

// ForceUnlocked records which holds an operator has released with lockmw.Inspector.ForceUnlock, and who that was: by is a name, or
// page or command if nobody knows. Unlike other events they are all written, before it returns. An error is Redis' own, or that of
// ctx.
func (r *Recorder) ForceUnlocked(ctx context.Context, by string, taken ...Taken) error {
	now := time.Now()
	by = strings.ToValidUTF8(by[:min(len(by), mostBy)], "")
	var err error
	for some := range slices.Chunk(taken, most) {
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
