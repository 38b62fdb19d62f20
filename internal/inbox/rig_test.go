package inbox_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockmw/go/internal/inbox"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

// A bubble has Inboxes of an embedded server, where minutes pass immediately and times are exact.
type bubble struct {
	*testing.T
	s      *redistest.Server
	wire   *redistest.Wire // of all connections of the Inboxes
	others *redis.Client   // of another process, which publishes
	logged bytes.Buffer

	all    *inbox.Inboxes
	reader *reader
	box    *inbox.Inbox // one that is not used yet
	stop   func()

	mu    sync.Mutex
	start time.Time
	dials []time.Duration // when connections were tried, since start
}

// inBubble runs test with a client of the server. It must not be parallel to others.
func inBubble(t *testing.T, test func(b *bubble)) {
	t.Helper()
	inBubbleOf(t, func(_ *bubble, rdb *redis.Client) redis.UniversalClient { return rdb }, test)
}

// inBubbleOf is inBubble with another client, made of that one.
func inBubbleOf(t *testing.T, client func(b *bubble, rdb *redis.Client) redis.UniversalClient, test func(b *bubble)) {
	t.Helper()
	defer race.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) }) // until the goroutines of go-redis have ended
		s := redistest.Piped(t)
		b := &bubble{T: t, s: s, wire: s.NewWire(), others: s.NewClient(t), start: time.Now(), reader: &reader{}, box: inbox.New("inbox")}
		rdb := client(b, s.NewClient(t, b.use))
		sender := transport.NewSender(rdb, transport.Topology{Single: true}, time.Second, transport.Replicas{})
		schedule := timers.New(func() {})
		b.all = inbox.NewInboxes(inbox.Config{
			Client: rdb, Sender: sender, Schedule: schedule, Reader: b.reader, Logger: slog.New(slog.NewTextHandler(&b.logged, nil)),
		})
		b.all.PerSlot = b.all.Cluster != nil
		b.stop = sync.OnceFunc(func() { // in the order of an engine
			sender.Cancel()
			schedule.Stop()
			b.all.Stop()
			sender.Stop()
		})
		t.Cleanup(b.stop)
		test(b)
	})
}

// use has the connections of a client run through the wire, and be noted.
func (b *bubble) use(o *redis.Options) {
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		b.mu.Lock()
		b.dials = append(b.dials, time.Since(b.start))
		b.mu.Unlock()
		return b.wire.Dial(ctx, network, addr)
	}
	// In a bubble, others wait forever for the answer to what go-redis asks on a new connection if it is lost.
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// tries returns when connections were tried, when nothing more happens immediately, and forgets them.
func (b *bubble) tries() []time.Duration {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	dials := b.dials
	b.dials = nil
	return dials
}

// subscribe has inboxes be used, and returns when they are subscribed to.
func (b *bubble) subscribe(boxes ...*inbox.Inbox) {
	b.Helper()
	for _, box := range boxes {
		b.all.Use(box)
	}
	synctest.Wait()
	for _, box := range boxes {
		if !box.IsLive() {
			b.Fatalf("%s is not subscribed to", box.Name)
		}
	}
}

// publish publishes messages, which are delivered when it returns.
func (b *bubble) publish(channel string, messages ...string) {
	b.Helper()
	b.publishBy(b.others, channel, messages...)
}

// publishBy is publish by another client than b.others.
func (b *bubble) publishBy(rdb *redis.Client, channel string, messages ...string) {
	b.Helper()
	for _, m := range messages {
		if err := rdb.Publish(b.Context(), channel, m).Err(); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
	}
}

// wantMessages checks what has come in since the last check.
func (b *bubble) wantMessages(want ...string) {
	b.Helper()
	synctest.Wait()
	b.reader.mu.Lock()
	defer b.reader.mu.Unlock()
	if !slices.Equal(b.reader.messages, want) {
		b.Errorf("messages %q have come in, want %q", b.reader.messages, want)
	}
	b.reader.messages = nil
}

// refuse has the server answer a command with an error; "" ends that.
func (b *bubble) refuse(command, answer string) {
	b.Helper()
	if err := b.others.Ping(b.Context()).Err(); err != nil { // which starts the server
		b.Fatal(err)
	}
	b.s.Mini.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if answer == "" || cmd != command {
			return false
		}
		c.WriteError(answer)
		return true
	})
}

// A reader notes what it is told.
type reader struct {
	idle atomic.Bool

	mu         sync.Mutex
	messages   []string // with their channels
	news       []string // "subscribed" and "missed"
	beats      map[string][]time.Time
	movedFrom  *redis.Client
	movedNames []string
}

func (r *reader) Message(channel, payload string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, channel+": "+payload)
}

func (r *reader) Subscribed() { r.note("subscribed") }

func (r *reader) Missed() { r.note("missed") }

func (r *reader) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.news = append(r.news, what)
}

// heard returns what was noted since the last call.
func (r *reader) heard() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	news := r.news
	r.news = nil
	return news
}

func (r *reader) Moved(from *redis.Client, some []*inbox.Inbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.movedFrom = from
	for _, b := range some {
		r.movedNames = append(r.movedNames, b.Name)
	}
}

func (r *reader) Beat(b *inbox.Inbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.beats == nil {
		r.beats = make(map[string][]time.Time)
	}
	r.beats[b.Name] = append(r.beats[b.Name], time.Now())
}

func (r *reader) IsIdle() bool { return r.idle.Load() }
