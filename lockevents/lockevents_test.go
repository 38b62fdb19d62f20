package lockevents_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockevents"
	"github.com/lockmw/go/lockmw"
)

// A book is a Recorder, and what it has recorded.
type book struct {
	*lockevents.Recorder
	t       *testing.T
	rdb     *redis.Client
	history *lockevents.History
}

func newBook(t *testing.T, s *redistest.Server, opts ...lockevents.Option) *book {
	t.Helper()
	rdb := s.NewClient(t)
	insp := usertest.Inspector(t, rdb)
	return &book{lockevents.New(insp, opts...), t, rdb, lockevents.NewHistory(insp)}
}

// recent closes the book and returns the last events of a key.
func (b *book) recent(key string, n int) []lockevents.Event {
	b.t.Helper()
	if err := b.Close(); err != nil {
		b.t.Fatal(err)
	}
	events, err := b.history.Recent(b.t.Context(), key, n)
	if err != nil {
		b.t.Fatal(err)
	}
	return events
}

// wantKinds checks what happened, in which order.
func wantKinds(t *testing.T, events []lockevents.Event, want ...lockevents.Kind) {
	t.Helper()
	var kinds []lockevents.Kind
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	if !slices.Equal(kinds, want) {
		t.Fatalf("%v happened, want %v: %+v", kinds, want, events)
	}
}

func TestTheLifeOfALockIsRecorded(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		b := newBook(t, s)
		locks := usertest.Client(t, s, lockmw.WithObserver(b.Observer()))
		began := time.Now()
		_, first := usertest.Lock(t, t.Context(), locks, "user:42", lockmw.WithLabel("order-1"))
		time.AfterFunc(3*time.Second, func() { usertest.Unlock(t, first) })
		_, second := usertest.Lock(t, t.Context(), locks, "user:42", lockmw.WithLabel("order-2"))
		synctest.Wait() // the other goroutine has recorded the release
		usertest.Unlock(t, second)
		usertest.Lock(t, t.Context(), locks, "user:43")
		events := b.recent("user:42", 100)
		if len(events) == 5 && events[2].At.Equal(events[3].At) { // recorded by two goroutines
			slices.SortFunc(events[2:4], func(a, b lockevents.Event) int { return cmp.Compare(a.Token, b.Token) })
		}
		wantKinds(t, events, lockevents.Acquired, lockevents.Waits, lockevents.Released, lockevents.Acquired, lockevents.Released)
		got, waits, released, then := events[0], events[1], events[2], events[3]
		if got.Key != "user:42" || got.Label != "order-1" || got.Mode != "exclusive" || got.Op != "lock" || got.Token != first.Token() || got.Waited != 0 || got.Contended {
			t.Errorf("acquired: %+v", got)
		}
		if at := got.At.Sub(began); at < 0 || at > time.Second {
			t.Errorf("acquired after %v", at)
		}
		if waits.Label != "order-2" || waits.Token != 0 || waits.Behind.Label != "order-1" || waits.Behind.Token != first.Token() || !strings.HasPrefix(waits.Behind.Process, waits.Process+":") {
			t.Errorf("waits: %+v", waits)
		}
		if released.Held != 3*time.Second || then.Waited != 3*time.Second || !then.Contended || then.Token <= first.Token() {
			t.Errorf("released: %+v; then: %+v", released, then)
		}
		all, err := b.history.Recent(t.Context(), "", 2)
		if err != nil {
			t.Fatal(err)
		}
		wantKinds(t, all, lockevents.Released, lockevents.Acquired) // the last two of all keys
		if all[1].Key != "user:43" {
			t.Errorf("%+v", all)
		}
	})
}

func TestWhatGoesWrongIsRecorded(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		b := newBook(t, s)
		locks := usertest.Client(t, s, lockmw.WithObserver(b.Observer()))
		ctx, _ := usertest.Lock(t, t.Context(), locks, "user:42")
		if _, _, err := locks.TryLock(t.Context(), "user:42"); err == nil {
			t.Fatal("two hold it")
		}
		inspector, err := lockmw.NewInspector(b.rdb)
		if err != nil {
			t.Fatal(err)
		}
		status, err := inspector.Get(t.Context(), "user:42")
		if err != nil {
			t.Fatal(err)
		}
		if err := inspector.ForceUnlock(t.Context(), "user:42", status.Holders[0]); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		time.Sleep(time.Second)
		events := b.recent("user:42", 100)
		wantKinds(t, events, lockevents.Acquired, lockevents.Failed, lockevents.Lost)
		if e := events[1]; e.Outcome != "not_acquired" || e.Op != "try_lock" || !strings.Contains(e.Err, "busy") {
			t.Errorf("failed: %+v", e)
		}
		if e := events[2]; e.Err == "" || e.Token == 0 {
			t.Errorf("lost: %+v", e)
		}
	})
}

func TestAFailedRenewalAndFailingOpenAreRecorded(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		b := newBook(t, s)
		o := b.Observer()
		a := lockmw.Attempt{Key: "user:42"}
		broken := &lockmw.Error{Op: "renew", Key: "user:42", Err: lockmw.ErrUnavailable}
		ctx := o.Acquired(o.Start(t.Context(), a), a, lockmw.Acquisition{})
		o.Renewed(ctx, a, broken)
		o.Renewed(ctx, a, broken) // once is enough
		o.Renewed(ctx, a, nil)
		o.Renewed(ctx, a, &lockmw.Error{Err: lockmw.ErrLost}) // which Lost reports
		o.Renewed(ctx, a, nil)
		o.Renewed(ctx, a, broken)
		o.Lost(ctx, a, &lockmw.Error{Err: lockmw.ErrLost})
		o.Released(ctx, a, lockmw.Release{Err: lockmw.ErrLost}) // it has been told
		ctx = o.Acquired(o.Start(t.Context(), a), a, lockmw.Acquisition{FailedOpen: broken, Waited: time.Second})
		o.Acquired(ctx, a, lockmw.Acquisition{FailedOpen: broken}) // as if it were mounted twice
		o.Released(ctx, a, lockmw.Release{})                       // there was no hold
		ctx = o.Acquired(o.Start(t.Context(), a), a, lockmw.Acquisition{})
		o.Released(ctx, a, lockmw.Release{Err: &lockmw.Error{Err: lockmw.ErrLost}})
		events := b.recent("user:42", 100)
		wantKinds(t, events, lockevents.Acquired, lockevents.RenewalFailed, lockevents.RenewalFailed, lockevents.Lost, lockevents.FailedOpen,
			lockevents.Acquired, lockevents.Lost)
		if e := events[4]; e.Waited != time.Second || !strings.Contains(e.Err, "unavailable") || strings.Contains(e.Err, "user:42") {
			t.Errorf("failed open: %+v", e)
		}
	})
}

func TestMountedTwiceItRecordsOnce(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		b := newBook(t, s)
		locks := usertest.Client(t, s, lockmw.WithObserver(b.Observer()))
		_, hold := usertest.Lock(t, t.Context(), locks, "user:42", lockmw.WithObserver(b.Observer()))
		usertest.Unlock(t, hold)
		wantKinds(t, b.recent("user:42", 100), lockevents.Acquired, lockevents.Released)
	})
}

func TestMountedTwiceItRecordsAWaitOnce(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		b := newBook(t, s)
		locks := usertest.Client(t, s, lockmw.WithObserver(b.Observer()))
		_, hold := usertest.Lock(t, t.Context(), locks, "user:42")
		_, _, err := locks.Lock(t.Context(), "user:42", lockmw.WithWait(time.Second), lockmw.WithObserver(b.Observer()))
		if !errors.Is(err, lockmw.ErrBusy) {
			t.Errorf("the lock is busy: %v", err)
		}
		usertest.Unlock(t, hold)
		wantKinds(t, b.recent("user:42", 100), lockevents.Acquired, lockevents.Waits, lockevents.Failed, lockevents.Released)
	})
}

// A busy key must cost the server little, and hide nothing that matters.
func TestUsualEventsAreDroppedBeforeOthers(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		b := newBook(t, s)
		o := b.Observer()
		a := lockmw.Attempt{Key: "user:42"}
		for range 300 {
			o.Acquired(o.Start(t.Context(), a), a, lockmw.Acquisition{})
		}
		for range 100 {
			ctx := o.Start(t.Context(), a)
			o.Failed(ctx, a, &lockmw.Error{Err: lockmw.ErrBusy, Waited: time.Minute})
			o.Failed(ctx, a, lockmw.ErrBusy) // as if it were mounted twice
		}
		events := b.recent("", 1000)
		count := make(map[lockevents.Kind]int)
		for _, e := range events {
			count[e.Kind]++
			if e.Kind == lockevents.Failed && e.Waited != time.Minute {
				t.Errorf("%+v", e)
			}
		}
		if count[lockevents.Acquired] != 192 || count[lockevents.Failed] != 64 || events[len(events)-1].Dropped != 300-192+100-64 {
			t.Errorf("%v, dropped %d", count, events[len(events)-1].Dropped)
		}
		if n := b.rdb.XLen(t.Context(), "lockmw:events").Val(); n != 1 {
			t.Errorf("%d entries", n)
		}
	})
}

func TestEntriesAreWrittenInATimeAndBounded(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		b := newBook(t, s, lockevents.WithLength(10))
		o := b.Observer()
		a := lockmw.Attempt{Key: "user:42"}
		for range 50 {
			o.Acquired(o.Start(t.Context(), a), a, lockmw.Acquisition{})
			time.Sleep(30 * time.Millisecond)
		}
		if n := b.rdb.XLen(t.Context(), "lockmw:events").Val(); n != 10 { // miniredis drops all beyond
			t.Errorf("%d entries", n)
		}
		if ttl := b.rdb.PTTL(t.Context(), "lockmw:events").Val(); ttl < 6*24*time.Hour || ttl > 7*24*time.Hour {
			t.Errorf("it lives for %v", ttl)
		}
	})
}

func TestAKeyOfAnyBytesIsFound(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		b := newBook(t, s)
		o := b.Observer()
		keys := []string{"user:\xff\x00", "user:<script>\n\"'", "größe:ü"}
		for _, key := range keys {
			a := lockmw.Attempt{Key: key}
			o.Acquired(o.Start(t.Context(), a), a, lockmw.Acquisition{})
		}
		for _, key := range keys {
			if events := b.recent(key, 10); len(events) != 1 || events[0].Key != key {
				t.Errorf("%q: %+v", key, events)
			}
		}
	})
}

func TestWhatAnotherVersionWroteIsSkipped(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		b := newBook(t, s)
		for _, values := range [][]string{{"other", "1"}, {"events", "no JSON\n{}\n{\"event\":\"renamed\",\"key\":\"user:42\",\"new\":1}"}, {"process", "p", "dropped", "x"}} {
			if err := b.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "lockmw:events", Values: values}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		wantKinds(t, b.recent("", 10), "renamed")
	})
}

func TestAServerThatFailsIsToldOfAndDropsEvents(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		var log bytes.Buffer
		b := newBook(t, s, lockevents.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if err := b.rdb.Set(t.Context(), "lockmw:events", "foreign", 0).Err(); err != nil {
			t.Fatal(err)
		}
		o := b.Observer()
		a := lockmw.Attempt{Key: "user:42"}
		for range 3 {
			o.Acquired(o.Start(t.Context(), a), a, lockmw.Acquisition{})
			time.Sleep(time.Second)
		}
		if n := strings.Count(log.String(), "cannot be written"); n != 1 || !strings.Contains(log.String(), "WRONGTYPE") {
			t.Errorf("logged %d times: %s", n, log.String())
		}
		if _, err := b.history.Recent(t.Context(), "", 1); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("Recent: %v", err)
		}
		for _, err := range b.history.Follow(t.Context(), "", 0) {
			if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
				t.Errorf("Follow: %v", err)
			}
		}
		b.rdb.Del(t.Context(), "lockmw:events")
		o.Acquired(o.Start(t.Context(), a), a, lockmw.Acquisition{})
		if events := b.recent("user:42", 10); len(events) != 1 || events[0].Dropped != 3 {
			t.Errorf("%+v", events)
		}
	})
}

func TestACloseThatFailsSaysSo(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		b := newBook(t, s, lockevents.WithLogger(slog.New(slog.DiscardHandler)))
		o := b.Observer()
		a := lockmw.Attempt{Key: "user:42"}
		o.Acquired(o.Start(t.Context(), a), a, lockmw.Acquisition{})
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		o.Acquired(o.Start(t.Context(), a), a, lockmw.Acquisition{}) // dropped
		if err := b.Close(); err != nil {
			t.Errorf("Close again: %v", err)
		}
		if n := len(b.recent("", 10)); n != 1 {
			t.Errorf("%d events", n)
		}
	})
}

func TestACloseWhoseWriteFailsSaysSo(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		b := newBook(t, s, lockevents.WithLogger(slog.New(slog.DiscardHandler)))
		o, a := b.Observer(), lockmw.Attempt{Key: "user:42"}
		o.Acquired(o.Start(t.Context(), a), a, lockmw.Acquisition{})
		s.Mini.SetError("OOM command not allowed")
		defer s.Mini.SetError("")
		if err := b.Close(); err == nil || !strings.Contains(err.Error(), "OOM") {
			t.Errorf("Close: %v", err)
		}
	})
}

// A slow server takes a second for an entry.
type slow struct{ redis.Hook }

func (slow) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		time.Sleep(time.Second)
		return next(ctx, cmds)
	}
}

func TestWhatComesWhileAnEntryIsWrittenIsInTheNext(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		b := newBook(t, s)
		b.rdb.AddHook(slow{passing{}})
		o := b.Observer()
		a := lockmw.Attempt{Key: "user:42"}
		for range 2 {
			o.Acquired(o.Start(t.Context(), a), a, lockmw.Acquisition{})
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		if n := b.rdb.XLen(t.Context(), "lockmw:events").Val(); n != 2 {
			t.Errorf("%d entries", n)
		}
		o.Acquired(o.Start(t.Context(), a), a, lockmw.Acquisition{})
		time.Sleep(500 * time.Millisecond) // the entry is being written
		if n := len(b.recent("user:42", 10)); n != 3 {
			t.Errorf("Close did not wait for the last entry: %d events", n)
		}
	})
}

// passing is a hook that does nothing.
type passing struct{}

func (passing) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (passing) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (passing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestTheStreamHasThePrefixOfTheLocks(t *testing.T) {
	s := redistest.Mini(t)
	insp := usertest.Inspector(t, s.NewClient(t), lockmw.WithPrefix("shop"))
	if err := lockevents.New(insp).ForceUnlocked(t.Context(), "alice", lockevents.Taken{Key: "user:42"}); err != nil {
		t.Fatal(err)
	}
	events, err := lockevents.NewHistory(insp).Recent(t.Context(), "user:42", 1)
	if err != nil || len(events) != 1 || s.NewClient(t).Exists(t.Context(), "shop:events").Val() != 1 {
		t.Errorf("%v, %v", events, err)
	}
}

func TestMistakesPanic(t *testing.T) {
	insp := usertest.Inspector(t, redistest.Mini(t).NewClient(t))
	for want, do := range map[string]func(){
		"New: option 1 is nil":          func() { lockevents.New(insp, nil) },
		"New: WithLength(0)":            func() { lockevents.New(insp, lockevents.WithLength(0)) },
		"New: WithLength(1000001)":      func() { lockevents.New(insp, lockevents.WithLength(1_000_001)) },
		"New: WithLogger(nil)":          func() { lockevents.New(insp, lockevents.WithLogger(nil)) },
		"New: the Inspector is nil":     func() { lockevents.New(nil) },
		"NewHistory: the Inspector is ": func() { lockevents.NewHistory(nil) },
		"the Recorder was not made by":  func() { new(lockevents.Recorder).Observer() },
		"the Recorder was not made":     func() { _ = new(lockevents.Recorder).ForceUnlocked(t.Context(), "a", lockevents.Taken{}) },
		"the History was not made":      func() { _, _ = new(lockevents.History).Recent(t.Context(), "k", 1) },
	} {
		if err := usertest.Recovered(do); err == nil || !strings.HasPrefix(err.Error(), "lockevents: "+want) {
			t.Errorf("%s: panics with %v", want, err)
		}
	}
}
