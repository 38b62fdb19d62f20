package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
)

const (
	maxFlights = 8   // commands or pipelines under way at once on behalf of callers
	maxBatch   = 128 // commands in a pipeline
)

// A call is one run of a script.
type call struct {
	ctx    context.Context // the caller's: go-redis begins no retry after its end
	script *script
	args   []any // of EVALSHA, which starts at args[0]
	done   func(*reply)
	sent   time.Time // before the first byte was sent

	timeout time.Duration // after which a batch with it is abandoned; for the schedule only
}

// newCall prepares a run of s. done is called once, by the goroutine that did it.
func newCall(ctx context.Context, s *script, keys []string, args []any, done func(*reply)) *call {
	k := &call{ctx: ctx, script: s, done: done}
	k.args = make([]any, 0, 3+len(keys)+len(args))
	k.args = append(k.args, "evalsha", s.sha, len(keys))
	for _, key := range keys {
		k.args = append(k.args, key)
	}
	k.args = append(k.args, args...)
	return k
}

func (k *call) command(ctx context.Context) *redis.Cmd {
	cmd := redis.NewCmd(ctx, k.args...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// finish hands the answer over; a script that the server does not know yet is sent whole before.
func (k *call) finish(ctx context.Context, c *caller, cmd *redis.Cmd) {
	if isMissingScript(cmd.Err()) {
		k.args[0], k.args[1] = "eval", k.script.source
		cmd = k.command(ctx)
		_ = c.rdb.Process(ctx, cmd) // the error is cmd's
	}
	k.done(newReply(cmd, k.sent))
}

// A caller runs scripts. As long as few are under way each goes out on its own; beyond that they
// gather while the others are under way, and go out together. So a single call is never held up, and
// many share round trips.
type caller struct {
	rdb     redis.UniversalClient
	flights int // how many at once

	ctx    context.Context // ends when all calls are to end
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	flying  int
	waiting []*call
	idle    chan struct{} // closed when flying becomes 0; nil if nobody waits for it
}

func newCaller(rdb redis.UniversalClient, flights int) *caller {
	c := &caller{rdb: rdb, flights: flights}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// start runs k as soon as there is room for it.
func (c *caller) start(k *call) {
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		go k.done(&reply{err: core.ErrClosed})
		return
	}
	if c.flying >= c.flights {
		c.waiting = append(c.waiting, k)
		c.mu.Unlock()
		return
	}
	c.flying++
	c.wg.Add(1)
	c.mu.Unlock()
	go c.fly(k)
}

// fly runs k, and then what has gathered meanwhile.
func (c *caller) fly(k *call) {
	defer c.wg.Done()
	c.run(k)
	for {
		c.mu.Lock()
		n := min(len(c.waiting), maxBatch)
		if n == 0 {
			c.flying--
			c.waiting = nil
			if c.flying == 0 && c.idle != nil {
				close(c.idle)
				c.idle = nil
			}
			c.mu.Unlock()
			return
		}
		batch := c.waiting[:n:n]
		c.waiting = c.waiting[n:]
		c.mu.Unlock()
		if n == 1 {
			c.run(batch[0])
		} else {
			c.runBatch(c.ctx, batch)
		}
	}
}

func (c *caller) run(k *call) {
	ctx := &callContext{Context: k.ctx, closing: c.ctx}
	k.sent = time.Now()
	cmd := k.command(ctx)
	_ = c.rdb.Process(ctx, cmd) // the error is cmd's
	k.finish(ctx, c, cmd)
}

// runBatch runs calls in one pipeline per node.
func (c *caller) runBatch(ctx context.Context, batch []*call) {
	sent := time.Now()
	pipe := c.rdb.Pipeline()
	cmds := make([]*redis.Cmd, len(batch))
	for i, k := range batch {
		k.sent = sent
		cmds[i] = k.command(ctx)
		_ = pipe.Process(ctx, cmds[i])
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, k := range batch {
		k.finish(ctx, c, cmds[i])
	}
}

// stop ends all calls and returns when their goroutines have ended.
func (c *caller) stop() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
}

// quiesce returns when nothing is under way, or after a while.
func (c *caller) quiesce(patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	c.mu.Lock()
	idle := make(chan struct{})
	if c.flying == 0 {
		close(idle)
	} else {
		c.idle = idle
	}
	c.mu.Unlock()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// callContext is the context of one call: the caller's, and over when the engine closes.
type callContext struct {
	context.Context
	closing context.Context
}

func (c *callContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	return c.closing.Err()
}

func (c *callContext) Done() <-chan struct{} {
	if done := c.Context.Done(); done != nil {
		return done
	}
	return c.closing.Done()
}

// An id names one request for a lock, the ticket and the hold that come of it. As an argument of a
// command it counts how often the command was written to a connection: go-redis repeats a command
// whose reply was lost, and a copy that got stuck on the way may still arrive.
type id struct {
	text   string
	copies atomic.Int32
}

func (i *id) String() string { return i.text }

// MarshalBinary is called by go-redis each time it writes the command.
func (i *id) MarshalBinary() ([]byte, error) {
	i.copies.Add(1)
	return []byte(i.text), nil
}

// markMillis is how long the id is to be remembered as over when its hold ends: only if more than one
// copy of its acquire was sent, so that one may still arrive.
func (i *id) markMillis() int64 {
	if i.copies.Load() > 1 {
		return doneMillis
	}
	return 0
}
