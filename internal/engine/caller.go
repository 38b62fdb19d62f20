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

	brief    redis.UniversalClient // see limited
	patience time.Duration
}

func newCaller(rdb redis.UniversalClient, flights int) *caller {
	c := &caller{rdb: rdb, flights: flights}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// start runs k in a goroutine as soon as there is room for it.
func (c *caller) start(k *call) {
	if c.enter(k) {
		go c.fly(k)
	}
}

// here runs k in the caller's goroutine if there is room, and starts it otherwise: two switches of
// goroutines cost more than many a round trip. It returns when go-redis does, so it is only for
// callers who cannot be cancelled meanwhile.
func (c *caller) here(k *call) {
	if !c.enter(k) {
		return
	}
	c.finish(k, c.run(c.rdb, k))
	c.leave()
}

// briefly is here with a limit: after patience without an answer, or if the connection fails, k is
// started as well.
func (c *caller) briefly(k *call, patience time.Duration) {
	rdb := c.limited(patience)
	if rdb == nil {
		c.start(k)
		return
	}
	if !c.enter(k) {
		return
	}
	cmd := c.run(rdb, k)
	if err := cmd.Err(); err == nil || isReply(err) {
		c.finish(k, cmd)
		c.leave()
		return
	}
	go c.fly(k)
}

// enter reports whether there is room to run k now; if not, k will be run when there is.
func (c *caller) enter(k *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.stopped:
		go k.done(&reply{err: core.ErrClosed})
		return false
	case c.flying >= c.flights:
		c.waiting = append(c.waiting, k)
		return false
	}
	c.flying++
	c.wg.Add(1)
	return true
}

// leave gives the room to those who wait for it.
func (c *caller) leave() {
	if batch := c.next(); batch != nil {
		go c.flyBatches(batch)
	}
}

// next takes what has gathered; if that is nothing, the room is free.
func (c *caller) next() []*call {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.waiting), maxBatch)
	if n == 0 {
		c.flying--
		c.waiting = nil
		if c.flying == 0 && c.idle != nil {
			close(c.idle)
			c.idle = nil
		}
		c.wg.Done()
		return nil
	}
	batch := c.waiting[:n:n]
	c.waiting = c.waiting[n:]
	return batch
}

// fly runs k, and then what has gathered meanwhile.
func (c *caller) fly(k *call) {
	c.finish(k, c.run(c.rdb, k))
	c.flyBatches(c.next())
}

func (c *caller) flyBatches(batch []*call) {
	for ; batch != nil; batch = c.next() {
		if len(batch) == 1 {
			c.finish(batch[0], c.run(c.rdb, batch[0]))
		} else {
			c.runBatch(c.ctx, batch)
		}
	}
}

// run sends k on its own.
func (c *caller) run(rdb redis.UniversalClient, k *call) redis.Cmder {
	ctx := &callContext{Context: k.ctx, closing: c.ctx}
	if k.sent.IsZero() {
		k.sent = time.Now()
	}
	var cmd redis.Cmder = k.command(ctx)
	if rdb != c.rdb {
		cmd = once{cmd.(*redis.Cmd)}
	}
	_ = rdb.Process(ctx, cmd) // the error is cmd's
	return cmd
}

// finish hands the answer over; a script that the server does not know yet is sent whole before.
func (c *caller) finish(k *call, cmd redis.Cmder) {
	if isMissingScript(cmd.Err()) {
		k.args[0], k.args[1] = "eval", k.script.source
		cmd = c.run(c.rdb, k)
	}
	k.done(newReply(cmd, k.sent))
}

// limited returns a client that gives up after patience, if the user's is of a kind that can.
func (c *caller) limited(patience time.Duration) redis.UniversalClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.brief == nil || c.patience != patience {
		rdb, ok := c.rdb.(*redis.Client)
		if !ok {
			return nil
		}
		c.brief, c.patience = rdb.WithTimeout(patience), patience
	}
	return c.brief
}

// once is a command that go-redis does not repeat.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

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
		c.finish(k, cmds[i])
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
