package quorum_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/engine"
	"github.com/lockmw/go/internal/quorum"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
)

// limit is how long a node may take to answer.
const limit = 500 * time.Millisecond

// A bubble has embedded nodes, where minutes pass immediately and times are exact.
type bubble struct {
	*testing.T
	nodes []*redistest.Server

	mu        sync.Mutex
	refusals  map[int]string // what nodes answer to each script
	forbidden map[int]string // the tag of the key that users may not use at nodes
}

// inBubble runs test with n nodes. It must not be parallel to others.
func inBubble(t *testing.T, n int, test func(b *bubble)) {
	t.Helper()
	defer race.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) }) // until the goroutines of go-redis have ended
		b := &bubble{T: t, nodes: redistest.NewNodes(t, n, redistest.Piped).Servers(), refusals: make(map[int]string), forbidden: make(map[int]string)}
		for i := range b.nodes {
			b.script(i)
		}
		test(b)
	})
}

// A process has Locks over the nodes, and a wire to each node.
type process struct {
	*quorum.Locks
	b       *bubble
	engines []*engine.Engine
	wires   []*redistest.Wire
}

// process returns one more, whose holds need more than half of the nodes. Each edit may change that.
func (b *bubble) process(edit ...func(*quorum.Config)) *process {
	b.Helper()
	p := &process{b: b}
	for _, s := range b.nodes {
		wire := s.NewWire()
		p.wires = append(p.wires, wire)
		p.engines = append(p.engines, b.engine(s, wire.Use))
	}
	cfg := quorum.Config{
		Quorum: len(b.nodes)/2 + 1, Tokens: true, NodeTimeout: limit,
		MinDelay: 10 * time.Millisecond, MaxDelay: 500 * time.Millisecond, UnlockTimeout: 2 * time.Second,
	}
	for _, f := range edit {
		f(&cfg)
	}
	p.Locks = quorum.New(p.engines, cfg)
	b.Cleanup(func() { _ = p.Close() })
	b.Cleanup(p.restore)
	return p
}

func (b *bubble) engine(s *redistest.Server, edit ...func(*redis.Options)) *engine.Engine {
	b.Helper()
	cfg := engine.DefaultConfig()
	cfg.Logger = slog.New(slog.DiscardHandler)
	e, err := engine.New(s.NewClient(b, append(edit, plainConns)...), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = e.Close() })
	return e
}

// plainConns has go-redis ask new connections for nothing: in a bubble, others wait for a lost answer at a mutex forever.
func plainConns(o *redis.Options) {
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// restore lets the process reach all nodes again.
func (p *process) restore() {
	for _, w := range p.wires {
		w.Restore()
	}
}

// cut has the nodes refuse the connections of the process.
func (p *process) cut(nodes ...int) {
	for _, i := range nodes {
		p.wires[i].Cut()
	}
}

// warm has the process know the clocks of all nodes, and the nodes the scripts.
func (p *process) warm() *process {
	p.b.Helper()
	p.b.release(p.lock("warm"))
	synctest.Wait()
	return p
}

// lock takes the lock of a key that must be free, and returns when all nodes have answered.
func (p *process) lock(key string, edit ...func(*core.Request)) *calling {
	p.b.Helper()
	c := p.try(key, edit...)
	if c.err != nil {
		p.b.Fatalf("the lock of %s: %v", key, c.err)
	}
	return c
}

// try is a call that does not wait for other holders.
func (p *process) try(key string, edit ...func(*core.Request)) *calling {
	c := p.call(key, append(edit, func(r *core.Request) { r.Wait = 0 })...)
	c.await()
	synctest.Wait()
	return c
}

// A calling is a call of Acquire that is under way, or has returned.
type calling struct {
	core.Request
	b    *bubble
	stop context.CancelFunc
	done chan struct{}
	hold core.Hold
	err  error
	took time.Duration

	mu     sync.Mutex
	events heard
}

// call begins a call that waits without a limit, and returns when nothing more happens immediately.
func (p *process) call(key string, edit ...func(*core.Request)) *calling {
	c := &calling{b: p.b, done: make(chan struct{})}
	c.Request = core.Request{
		Key: key, Mode: core.Exclusive, Owner: strings.Repeat("a", 32), Wait: core.Forever, Lease: 30 * time.Second, Events: c,
	}
	for _, f := range edit {
		f(&c.Request)
	}
	ctx, cancel := context.WithCancel(p.b.Context())
	c.stop = cancel
	go func() {
		defer close(c.done)
		start := time.Now()
		c.hold, c.err = p.Acquire(ctx, &c.Request)
		c.took = time.Since(start)
	}()
	synctest.Wait()
	return c
}

// await returns when the call has.
func (c *calling) await() {
	c.b.Helper()
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		c.b.Fatalf("a call for %s does not return", c.Key)
	}
}

func (c *calling) returned() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// release releases holds, which the nodes must confirm.
func (b *bubble) release(all ...*calling) {
	b.Helper()
	for _, c := range all {
		if _, err := c.hold.Release(time.Minute); err != nil {
			b.Errorf("Release: %v", err)
		}
	}
}

const (
	aboutItem = "{item}"       // what a script has that is about this key
	asksItem  = "{item}:done:" // what it has if it requests the lock, or ends a request
)

// scripts returns how many scripts the process has sent to each node since its record that have all words in their arguments.
func (p *process) scripts(words ...string) (n []int) {
	synctest.Wait()
	for _, w := range p.wires {
		sent := 0
		for _, c := range w.Sent() {
			if c.IsScript() && !c.Concerns("lockmw:probe:") && !slices.ContainsFunc(words, func(s string) bool { return !c.Concerns(s) }) {
				sent++
			}
		}
		n = append(n, sent)
	}
	return n
}

// record begins to note what the process sends.
func (p *process) record() {
	for _, w := range p.wires {
		w.Record()
	}
}
