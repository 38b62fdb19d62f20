// Package streams consumes a Redis stream with several processes, one message at a time for each key.
package streams

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/consume"
	"github.com/lockmw/go/lockmw"
)

// A Consumer is one member of a consumer group. All fields except Context are required.
type Consumer struct {
	Redis         redis.UniversalClient
	Stream, Group string
	// Name is unique among the processes of the group.
	Name string
	// Idle is after what time without a sign of life another member takes over a message, such as 30 s. It is the same in all members.
	Idle time.Duration
	// Grace is how long handlers have to end when the consumer stops.
	Grace time.Duration
	// Context returns the context in which a message waits and is handled. It adds values to ctx, such as the trace of the producer.
	// nil: ctx.
	Context func(ctx context.Context, message redis.XMessage) context.Context
}

func (c Consumer) contextOf(ctx context.Context, message redis.XMessage) context.Context {
	if c.Context == nil {
		return ctx
	}
	return c.Context(ctx, message)
}

// Run creates the group if needed, and handles messages until ctx ends. It then waits for the handlers that run, and leaves the other
// messages to the group. Redis being unreachable does not end it. It returns the cause of ctx.
//
// A message that giveUp accepts is acknowledged like one that was handled.
func (c Consumer) Run(ctx context.Context, locks lockmw.Locker, key lockmw.KeyFunc[redis.XMessage],
	handle consume.Handler[redis.XMessage], giveUp consume.GiveUp[redis.XMessage], opts ...consume.Option,
) error {
	m := &member{Consumer: c, running: make(map[string]bool)}
	owned := func(ctx context.Context, message redis.XMessage) error {
		// Another member may have taken the message over while it waited for its lock.
		ids, err := m.setIdle(ctx, 0, message.ID)
		switch {
		case err != nil:
			return err
		case len(ids) == 0:
			m.leave(message.ID)
			return nil
		}
		return handle(ctx, message)
	}
	alive, stop := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx by Grace
	messages := consume.New(locks, key, owned, giveUp, opts...).Open(func(message redis.XMessage) { m.acknowledge(alive, message.ID) })
	var loops sync.WaitGroup
	loops.Go(func() { m.refresh(alive) })
	loops.Go(func() { m.receive(ctx, messages) })

	<-ctx.Done()
	end, cancel := context.WithTimeout(alive, c.Grace)
	defer cancel()
	messages.Close(end)
	stop()
	loops.Wait() // a read that blocks takes up to a second
	m.handBack(context.WithoutCancel(ctx))
	return context.Cause(ctx)
}

type member struct {
	Consumer
	mu      sync.Mutex
	running map[string]bool // by ID: received and not acknowledged; false if another member has taken it over
}

// receive submits messages until ctx ends. Messages of dead members come first, because they are older.
func (m *member) receive(ctx context.Context, messages *consume.Partition[redis.XMessage]) {
	for ctx.Err() == nil {
		list, err := m.claim(ctx)
		if err == nil && len(list) == 0 {
			list, err = m.read(ctx)
		}
		if err != nil && ctx.Err() == nil {
			m.recover(ctx, err)
		}
		for _, message := range m.begin(list) {
			if messages.Submit(m.contextOf(ctx, message), message) != nil {
				return // ctx has ended; handBack leaves the rest to others
			}
		}
	}
}

func (m *member) claim(ctx context.Context) ([]redis.XMessage, error) {
	list, _, err := m.Redis.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: m.Stream, Group: m.Group, Consumer: m.Name, MinIdle: m.Idle, Start: "0-0", Count: 10,
	}).Result()
	return list, err
}

func (m *member) read(ctx context.Context) ([]redis.XMessage, error) {
	streams, err := m.Redis.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: m.Group, Consumer: m.Name, Streams: []string{m.Stream, ">"}, Count: 10, Block: min(time.Second, m.Idle),
	}).Result()
	switch {
	case errors.Is(err, redis.Nil): // there was no message
		return nil, nil
	case err != nil:
		return nil, err
	}
	return streams[0].Messages, nil
}

// recover creates the group, which may not exist yet or any more, and otherwise waits a second.
func (m *member) recover(ctx context.Context, err error) {
	if strings.HasPrefix(err.Error(), "NOGROUP") {
		err = m.Redis.XGroupCreateMkStream(ctx, m.Stream, m.Group, "0").Err()
		if err == nil || strings.HasPrefix(err.Error(), "BUSYGROUP") {
			return
		}
	}
	slog.WarnContext(ctx, "reading a stream", "stream", m.Stream, "error", err)
	wait(ctx, time.Second)
}

// begin notes messages, and leaves out those that run already: a process that was paused claims its own.
func (m *member) begin(list []redis.XMessage) []redis.XMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(list, func(message redis.XMessage) bool {
		_, runs := m.running[message.ID]
		if !runs {
			m.running[message.ID] = true
		}
		return runs
	})
}

func (m *member) ids() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.running))
}

// refresh tells the group that the messages of this member are in hand.
func (m *member) refresh(ctx context.Context) {
	for wait(ctx, m.Idle/3) {
		if _, err := m.setIdle(ctx, 0, m.ids()...); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "refreshing messages of a stream", "stream", m.Stream, "error", err)
		}
	}
}

//go:embed owned.lua
var ownedSource string

var ownedScript = redis.NewScript(ownedSource)

// setIdle sets how long messages have been idle, and returns those that this member still owns.
func (m *member) setIdle(ctx context.Context, idle time.Duration, ids ...string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	args := []any{m.Group, m.Name, idle.Milliseconds()}
	for _, id := range ids {
		args = append(args, id)
	}
	return ownedScript.Run(ctx, m.Redis, []string{m.Stream}, args...).StringSlice()
}

// leave notes that another member has taken over a message, which is then not this one's to acknowledge.
func (m *member) leave(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running[id] = false
}

// acknowledge removes a message from the group, and retries until ctx ends: otherwise the message would run again.
func (m *member) acknowledge(ctx context.Context, id string) {
	m.mu.Lock()
	mine := m.running[id]
	m.mu.Unlock()
	for mine && m.Redis.XAck(ctx, m.Stream, m.Group, id).Err() != nil {
		if !wait(ctx, time.Second) {
			return
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.running, id)
}

// handBack lets other members take over all messages immediately. Without it they would do so after Idle.
func (m *member) handBack(ctx context.Context) {
	if _, err := m.setIdle(ctx, m.Idle, m.ids()...); err != nil {
		slog.WarnContext(ctx, "handing messages of a stream back", "stream", m.Stream, "error", err)
	}
}

// wait returns true after d, or false when ctx ends.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
