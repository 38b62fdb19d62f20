package engine

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
)

const (
	// maxFlights is how many commands or pipelines are under way at once on behalf of callers: enough
	// that the server has something to do while answers are dealt with, and few enough that pipelines
	// are full when there is much to do.
	maxFlights = 5
	maxBatch   = 128 // calls in a pipeline
)

// A call is one run of a script.
type call struct {
	ctx    context.Context // the caller's: go-redis begins no retry after its end
	script *script
	args   []any // of EVALSHA, which starts at args[0]
	done   func(*reply)
	sent   time.Time // before the first byte was sent

	limit   time.Duration // how long it may take once it is sent; 0: as long as ctx
	timeout time.Duration // after which a batch with it is abandoned; for the schedule only
	after   func()        // set by done, to be called when all calls of a batch are done; may be nil

	copies *atomic.Int32 // how often it was sent; nil: nobody counts
}

// didNothing notes that the last copy which was sent did nothing.
func (k *call) didNothing() {
	if k.copies != nil {
		k.copies.Add(-1)
	}
}

// newCall prepares a run of s. done is called once, by the goroutine that did it.
func newCall(ctx context.Context, s *script, keys, args []any, done func(*reply)) *call {
	k := &call{ctx: ctx, script: s, done: done}
	k.args = make([]any, 0, 3+len(keys)+len(args))
	k.args = append(k.args, "evalsha", s.asked, len(keys))
	k.args = append(k.args, keys...)
	k.args = append(k.args, args...)
	return k
}

func (k *call) command(ctx context.Context) *redis.Cmd {
	cmd := redis.NewCmd(ctx, k.args...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// sends notes when k was sent first, and returns when it is now.
func (k *call) sends() time.Time {
	now := time.Now()
	if k.sent.IsZero() {
		k.sent = now
	}
	return now
}

// A caller runs scripts. As long as few are under way each goes out on its own; beyond that they
// gather while the others are under way, and go out together. So a single call is never held up, and
// many share round trips.
type caller struct {
	rdb     redis.UniversalClient
	flights int // how many at once

	patient *lane       // for callers that nothing but the answer can stop
	hurried *lane       // for those that must notice soon that their time is over
	quick   atomic.Bool // the server has answered well within the time that hurried callers have

	bulky atomic.Bool // scripts of several keys are run by one and the same server

	ctx    context.Context // ends when all calls are to end
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	flying  int
	waiting []*call
	idle    chan struct{} // closed when flying becomes 0; nil if nobody waits for it
}

// Hurried callers get through a lane in at most 2 * hurriedTurn + hurriedAnswer, which must be less
// than the 50 ms by which a call may outlast its context.
const (
	hurriedTurn   = 5 * time.Millisecond
	hurriedAnswer = 30 * time.Millisecond
	quickAnswer   = 5 * time.Millisecond
)

func newCaller(rdb redis.UniversalClient, flights int, patience time.Duration) *caller {
	c := &caller{rdb: rdb, flights: flights}
	c.ctx, c.cancel = context.WithCancel(context.WithValue(context.Background(), ownerKey{}, c))
	c.patient = newLane(c, patience/4, patience)
	c.hurried = newLane(c, hurriedTurn, hurriedAnswer)
	return c
}

// start runs k in a goroutine as soon as there is room for it.
func (c *caller) start(k *call) {
	if c.enter(k) {
		go c.fly(k)
	}
}

// inline runs k in the caller's goroutine if there is room, and reports whether it is done: two
// switches of goroutines cost more than many a round trip. If there is no answer in the lane's time or
// the connection fails, k is started as well, which does no harm.
func (c *caller) inline(k *call, l *lane) (done bool) {
	if l.rdb == nil || l == c.hurried && !c.quick.Load() {
		c.start(k)
		return false
	}
	if !c.enter(k) {
		return false
	}
	cmd := l.run(k)
	if err := cmd.Err(); err != nil && !isReply(err) {
		c.quick.Store(false)
		go c.fly(k)
		return false
	}
	c.finish(k, cmd)
	if batch := c.next(); batch != nil {
		go c.flyBatches(batch)
	}
	return true
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

// next takes what has gathered; nothing ends the flight.
func (c *caller) next() []*call {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.waiting), maxBatch)
	if n == 0 {
		c.flying--
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
	c.flyBatches([]*call{k})
}

func (c *caller) flyBatches(batch []*call) {
	for batch != nil {
		if len(batch) == 1 {
			c.finish(batch[0], c.run(batch[0]))
		} else {
			c.runBatch(c.ctx, batch)
		}
		runtime.Gosched() // those that have their answers may have something new to send
		batch = c.next()
	}
}

// run sends k on its own.
func (c *caller) run(k *call) redis.Cmder {
	ctx, cancel := c.context(k)
	defer cancel()
	started := k.sends()
	cmd := k.command(ctx)
	_ = c.rdb.Process(ctx, cmd) // the error is cmd's
	c.quick.Store(time.Since(started) < quickAnswer && (cmd.Err() == nil || isReply(cmd.Err())))
	return cmd
}

// finish hands the answer over; a script that the server does not know yet is sent whole before.
func (c *caller) finish(k *call, cmd redis.Cmder) {
	if isMissingScript(cmd.Err()) {
		k.didNothing()
		k.args[0], k.args[1] = "eval", k.script.source
		cmd = c.run(k)
	}
	k.done(replyTo(cmd, k.sent))
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

// context returns the context of k, which ends also when all calls are to end.
func (c *caller) context(k *call) (context.Context, context.CancelFunc) {
	ctx := k.ctx
	if k.limit > 0 {
		return context.WithTimeout(c.ctx, k.limit)
	}
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
