// Package streams consumes a Redis stream with several processes, one message at a time for each key.
package streams

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
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
	m := &member{Consumer: c, running: make(map[string]bool), claimed: "0-0"}
	alive, stop := context.WithCancel(context.WithoutCancel(ctx)) // until all handlers have returned
	end, cancel := context.WithCancel(alive)                      // outlives ctx by Grace
	messages := consume.New(locks, key, m.owned(handle), m.givenUp(giveUp), opts...).Open(func(message redis.XMessage) { m.acknowledge(end, message.ID) })
	var receiving, refreshing sync.WaitGroup
	refreshing.Go(func() { m.refresh(alive) })
	receiving.Go(func() { m.receive(ctx, messages) })

	<-ctx.Done()
	defer time.AfterFunc(c.Grace, cancel).Stop()
	messages.Close(end)
	receiving.Wait() // a read that blocks takes up to a second
	stop()
	refreshing.Wait()
	m.handBack(context.WithoutCancel(ctx))
	return context.Cause(ctx)
}

type member struct {
	Consumer
	mu      sync.Mutex
	running map[string]bool // by ID: received and not acknowledged; false if another member has taken it over
	claimed string          // where the next XAUTOCLAIM begins
}

// errNotBegun is wrapped in the error of an attempt for which Redis did not say who has the message. The message itself has not failed.
var errNotBegun = errors.New("streams: the message was not begun")

// owned returns a handler that leaves a message alone if another member has taken it over while it waited for its lock.
func (m *member) owned(handle consume.Handler[redis.XMessage]) consume.Handler[redis.XMessage] {
	return func(ctx context.Context, message redis.XMessage) error {
		owns, err := m.owns(ctx, message.ID)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", errNotBegun, err)
		case !owns:
			return nil
		}
		return handle(ctx, message)
	}
}

// givenUp returns a giveUp that leaves a failed message to the member that has taken it over, for example because this one has lost its
// lock.
func (m *member) givenUp(giveUp consume.GiveUp[redis.XMessage]) consume.GiveUp[redis.XMessage] {
	return func(ctx context.Context, message redis.XMessage, attempt int, err error) error {
		owns, unknown := m.owns(ctx, message.ID)
		switch {
		case unknown != nil:
			return unknown
		case !owns:
			return nil
		case giveUp == nil || errors.Is(err, errNotBegun):
			return err
		}
		return giveUp(ctx, message, attempt, err)
	}
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

// claim looks at the next hundred pending messages, because that is where XAUTOCLAIM ends, and after the last one begins again.
func (m *member) claim(ctx context.Context) ([]redis.XMessage, error) {
	list, next, err := m.Redis.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: m.Stream, Group: m.Group, Consumer: m.Name, MinIdle: m.Idle, Start: m.claimed, Count: 10,
	}).Result()
	if err == nil {
		m.claimed = next
	}
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

// owns reports whether a message is in the hand of this member. One that another member has taken over is not this one's to acknowledge.
// No message behind it may look older, because another member would then take that one first.
func (m *member) owns(ctx context.Context, id string) (bool, error) {
	ids, err := m.setIdle(ctx, 0, m.ids()...)
	if err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running[id] = slices.Contains(ids, id)
	return m.running[id], nil
}

// acknowledge removes a message from the group, and retries until ctx ends: otherwise the message would run again. It tries once in any
// case: a handler may have taken longer than Grace.
func (m *member) acknowledge(ctx context.Context, id string) {
	m.mu.Lock()
	mine := m.running[id]
	m.mu.Unlock()
	for mine && m.Redis.XAck(context.WithoutCancel(ctx), m.Stream, m.Group, id).Err() != nil {
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
