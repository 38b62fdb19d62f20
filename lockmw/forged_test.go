package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A forger may publish to all inboxes and hear what others publish there, and may not touch any key: say, an application that
// has another database of the server.
type forger struct {
	*testing.T
	rdb   *redis.Client
	heard *redis.PubSub
}

func newForger(t *testing.T, s *redistest.Server) *forger {
	admin := s.NewClient(t)
	if err := redistest.SetUser(t.Context(), admin, "forger", "on", "nopass", "&lockmw:inbox:*", "+psubscribe", "+subscribe", "+publish"); err != nil {
		t.Fatal(err)
	}
	rdb := s.NewClient(t, func(o *redis.Options) { o.Username, o.Password, o.DisableIdentity = "forger", "any", true })
	sub := rdb.PSubscribe(t.Context(), "lockmw:inbox:*")
	t.Cleanup(func() { _ = sub.Close() })
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &forger{t, rdb, sub}
}

// grant returns the inbox and the id of the next grant, and the rest of its message.
func (f *forger) grant() (inbox, id, rest string) {
	f.Helper()
	for {
		m, err := f.heard.ReceiveTimeout(f.Context(), 20*time.Second)
		if err != nil {
			f.Fatal(err)
		}
		message, _ := m.(*redis.Message)
		if message == nil {
			continue
		}
		if word, text, _ := strings.Cut(message.Payload, " "); word == "grant" {
			id, rest, _ = strings.Cut(text, " ")
			return message.Channel, id, rest
		}
	}
}

// publish publishes many messages, and returns when the server has them.
func (f *forger) publish(inbox string, texts ...string) {
	f.Helper()
	p := f.rdb.Pipeline()
	for _, text := range texts {
		p.Publish(f.Context(), inbox, text)
	}
	if _, err := p.Exec(f.Context()); err != nil {
		f.Fatal(err)
	}
}

// nextIDs guesses the next ids of the second process.
func (c *crowd) nextIDs(n int) (ids []string) {
	c.Helper()
	stem, number, _ := strings.Cut(c.id, ".")
	last, err := strconv.ParseInt(number, 36, 64)
	if err != nil {
		c.Fatal(err)
	}
	for i := range n {
		ids = append(ids, stem+"."+strconv.FormatInt(last+int64(i)+1, 36))
	}
	return ids
}

// A crowd is two processes, one of which was granted a lock by the other, and a forger who heard that.
type crowd struct {
	*forger
	s            *redistest.Server
	admin        *redis.Client
	holds, waits *lockmw.Client
	inbox, id    string // of the second process, and of its last hold
	rest         string // of the message that granted it
}

func newCrowd(t *testing.T) *crowd {
	s := redistest.Redis(t)
	c := &crowd{forger: newForger(t, s), s: s, admin: s.NewClient(t), holds: usertest.Client(t, s), waits: usertest.Client(t, s)}
	_, hold := usertest.Lock(t, t.Context(), c.holds, "account:2")
	granted := c.wait(t.Context(), "account:2")
	usertest.Unlock(t, hold)
	c.inbox, c.id, c.rest = c.grant()
	if err := usertest.Receive(t, "the second hold", granted); err != nil {
		t.Fatal(err)
	}
	return c
}

// wait has the second process wait for a key until ctx ends, and release it if it gets it.
func (c *crowd) wait(ctx context.Context, key string) <-chan error {
	c.Helper()
	call, waits := usertest.OnContended(c)
	ended := make(chan error, 1)
	go func() {
		_, hold, err := c.waits.Lock(ctx, key, lockmw.WithWait(lockmw.Forever), call)
		if err == nil {
			err = hold.Unlock()
		}
		ended <- err
	}()
	waits()
	return ended
}

// handOver has the second process get a key by a message: it has handled those that were published before.
func (c *crowd) handOver(key string) {
	c.Helper()
	_, hold := usertest.Lock(c, c.Context(), c.holds, key)
	ended := c.wait(c.Context(), key)
	usertest.Unlock(c, hold)
	if err := usertest.Receive(c, "the hold", ended); err != nil {
		c.Error(err)
	}
}

func TestForgedMessagesMakeAndEndNoHold(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	ctx, hold := usertest.Lock(t, t.Context(), c.holds, "account:1")
	patience, cancel := context.WithCancel(t.Context())
	defer cancel()
	refused := c.wait(patience, "account:1")
	var texts []string
	for _, next := range c.nextIDs(40) {
		texts = append(texts,
			fmt.Sprintf("grant %s 9007199254740000 9007199254740000 1 0 lockmw:{account:1}", next),
			"grant "+next+" "+c.rest,
			"grant "+next+" "+strings.ReplaceAll(c.rest, "account:2", "account:1"))
	}
	c.publish(c.inbox, texts...)
	c.handOver("account:3")
	cancel()
	if err := usertest.Receive(t, "the end of the wait", refused); !errors.Is(err, lockmw.ErrBusy) {
		t.Errorf("with forged grants a second process gets the lock: %v", err)
	}

	own, err := c.admin.HMGet(t.Context(), "lockmw:{account:1}", "id", "inbox").Result()
	if err != nil {
		t.Fatal(err)
	}
	c.publish(c.inbox, "lost "+c.id)
	c.publish(fmt.Sprint(own[1]), fmt.Sprint("lost ", own[0]))
	usertest.Refused(t, t.Context(), c.waits, "account:1", lockmw.WithWait(0))
	if err := context.Cause(ctx); err != nil {
		t.Errorf("a forged message has ended a hold: %v", err)
	}
	usertest.Unlock(t, hold)
}

func TestForgedMessagesWriteNothing(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	names := func() []string { return c.admin.Keys(t.Context(), "*").Val() }
	before, ids := names(), c.nextIDs(40)
	unused := ids[10:] // the waits below may use the others
	long := "lockmw:{" + strings.Repeat("x", 1<<20) + "}"
	for _, next := range ids {
		c.publish(c.inbox, "grant "+next+" 1 1 1 0 "+long, "grant "+next+" 1 1 1 0 lockmw:{account:9}", "grant "+next+" "+c.rest)
	}
	for range 3 { // what was sent because of them has come by then
		c.handOver("account:2")
	}
	isOwn := func(name string) bool { // a process writes that it is alive, and marks a hold whose request was sent twice
		id, isMark := strings.CutPrefix(name, "lockmw:{account:2}:done:")
		return slices.Contains(before, name) || name == "lockmw:alive" || isMark && !slices.Contains(unused, id)
	}
	usertest.Eventually(t, "only the keys of the two processes", 10*time.Second, func() bool {
		return len(slices.DeleteFunc(names(), isOwn)) == 0
	})
}
