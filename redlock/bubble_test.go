package redlock_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/redlock"
)

// A bubble is a synctest bubble with embedded nodes, where minutes pass instantly and times are exact.
type bubble struct {
	*testing.T
	nodes *redistest.Nodes
}

// inBubble runs test with n nodes. It must not run in parallel with other tests.
func inBubble(t *testing.T, n int, test func(b *bubble)) {
	t.Helper()
	defer race.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) }) // until go-redis' goroutines have ended
		test(&bubble{T: t, nodes: redistest.NewNodes(t, n, redistest.Piped)})
	})
}

// node returns the server with this index, from 0.
func (b *bubble) node(i int) *redistest.Server { return b.nodes.Servers()[i] }

// A process has its own Locker, and a wire to each node.
type process struct {
	*redlock.Locker
	b     *bubble
	wires []*redistest.Wire
}

// process returns a new process. The options are ClientOptions for its Clients or Options for its Locker.
func (b *bubble) process(opts ...any) *process {
	b.Helper()
	clientOpts := []lockmw.ClientOption{lockmw.WithLogger(slog.New(slog.DiscardHandler))}
	var lockerOpts []redlock.Option
	for _, o := range opts {
		switch o := o.(type) {
		case lockmw.ClientOption:
			clientOpts = append(clientOpts, o)
		case redlock.Option:
			lockerOpts = append(lockerOpts, o)
		default:
			b.Fatalf("an option of type %T", o)
		}
	}
	p := &process{b: b}
	var nodes []*lockmw.Client
	for _, s := range b.nodes.Servers() {
		wire := s.NewWire()
		p.wires = append(p.wires, wire)
		c, err := lockmw.New(s.NewClient(b, wire.Use, plainConns), clientOpts...)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Close() })
		nodes = append(nodes, c)
	}
	p.Locker = newLocker(b.T, nodes, lockerOpts...)
	b.Cleanup(func() {
		for _, w := range p.wires {
			w.Restore()
		}
	})
	return p
}

// plainConns turns off the command that go-redis sends on new connections. In a bubble, if its answer is lost, callers that wait for
// it at a mutex hang.
func plainConns(o *redis.Options) {
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// warm connects the process to all nodes, and subscribes it where its calls wait.
func (p *process) warm() *process {
	p.b.Helper()
	_, hold := lock(p.b.T, p, "warm")
	usertest.Unlock(p.b.T, hold)
	synctest.Wait()
	return p
}

// A calling is a call of Lock that is in progress or has returned.
type calling struct {
	done chan struct{}
	ctx  context.Context
	hold *lockmw.Hold
	err  error
	took time.Duration
}

// call starts a call of Lock, and returns when all goroutines are blocked.
func (p *process) call(key string, opts ...lockmw.Option) *calling {
	c := &calling{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		start := time.Now()
		c.ctx, c.hold, c.err = p.Lock(p.b.Context(), key, opts...)
		c.took = time.Since(start)
	}()
	synctest.Wait()
	return c
}

// returned reports whether the call has returned.
func (c *calling) returned() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}
