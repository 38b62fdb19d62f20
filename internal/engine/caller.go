package engine

import (
	"context"
	"sync"
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
	after   func()        // set by done, to be called when all calls of a batch are done; may be nil
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
	brief   redis.UniversalClient // rdb with a short timeout; nil if its kind has none
	flights int                   // how many at once

	ctx    context.Context // ends when all calls are to end
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	flying  int
	waiting []*call
	idle    chan struct{} // closed when flying becomes 0; nil if nobody waits for it
}

func newCaller(rdb redis.UniversalClient, flights int, patience time.Duration) *caller {
	c := &caller{rdb: rdb, flights: flights}
	if single, ok := rdb.(*redis.Client); ok {
		c.brief = single.WithTimeout(patience)
	}
	c.ctx, c.cancel = context.WithCancel(context.WithValue(context.Background(), ownerKey{}, c))
	return c
}

// start runs k in a goroutine as soon as there is room for it.
func (c *caller) start(k *call) {
	if c.enter(k) {
		go c.fly(k)
	}
}

// briefly runs k in the caller's goroutine if there is room: two switches of goroutines cost more than
// many a round trip. If there is no answer within the caller's patience or the connection fails, k is
// started as well, which does no harm.
func (c *caller) briefly(k *call) {
	if c.brief == nil {
		c.start(k)
		return
	}
	if !c.enter(k) {
		return
	}
	cmd := c.run(c.brief, k)
	if err := cmd.Err(); err != nil && !isReply(err) {
		go c.fly(k)
		return
	}
	c.finish(k, cmd)
	if batch := c.next(); batch != nil {
		go c.flyBatches(batch)
	}
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
	ctx, cancel := c.context(k.ctx)
	defer cancel()
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
	for _, k := range batch {
		if k.after != nil {
			k.after()
		}
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

// context returns ctx, which ends also when all calls are to end.
func (c *caller) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil {
		return &callContext{Context: c.ctx, values: ctx}, func() {}
	}
	if ctx.Value(ownerKey{}) == c {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// ownerKey finds the caller that a context ends with.
type ownerKey struct{}

// callContext has the values of one context and the end of another.
type callContext struct {
	context.Context
	values context.Context
}

func (c *callContext) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}
