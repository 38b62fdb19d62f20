package lockevents_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockevents"
	"github.com/lockmw/go/lockmw"
)

// Pages are of 100 entries.
func TestRecentReadsAsFarBackAsNeeded(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		b := newBook(t, s)
		o := b.Observer()
		for i := range 250 {
			key := "user:42"
			if i > 10 {
				key = "user:43"
			}
			a := lockmw.Attempt{Key: key, Policy: lockmw.Policy{}}
			o.Acquired(o.Start(t.Context(), a), a, lockmw.Acquisition{Waited: time.Duration(i) * time.Millisecond})
			time.Sleep(25 * time.Millisecond)
		}
		events := b.recent("user:42", 5)
		if len(events) != 5 || events[0].Waited != 6*time.Millisecond || events[4].Waited != 10*time.Millisecond {
			t.Errorf("%+v", events)
		}
		if n := len(b.recent("user:43", 1000)); n != 239 {
			t.Errorf("%d events", n)
		}
	})
}

// An event that is recorded while the last ones are read is new.
func TestFollowLeavesNoGapAfterTheLastEvents(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		b := newBook(t, s)
		add := func(label string) {
			line := fmt.Sprintf(`{"at_us":%d,"event":"lost","key":"user:42","label":%q}`, time.Now().UnixMicro(), label)
			if err := b.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "lockmw:events", Values: []any{"process", "web:1", "events", line}}).Err(); err != nil {
				t.Error(err)
			}
		}
		add("old")
		add("last")
		var labels []string
		for e, err := range b.history.Follow(t.Context(), "user:42", 1) {
			if err != nil {
				t.Fatal(err)
			}
			if labels = append(labels, e.Label); len(labels) > 1 {
				break
			}
			add("meanwhile")
		}
		if got := strings.Join(labels, " "); got != "last meanwhile" {
			t.Errorf("the events are %q", got)
		}
	})
}

func TestFollowYieldsWhatHappensFromNowOn(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		b := newBook(t, s)
		o := b.Observer()
		happens := func(key, label string) {
			a := lockmw.Attempt{Key: key}
			a.Policy.Label = label
			o.Acquired(o.Start(t.Context(), a), a, lockmw.Acquisition{})
		}
		happens("user:43", "before")
		for b.rdb.XLen(t.Context(), "lockmw:events").Val() == 0 {
			time.Sleep(time.Millisecond)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		following, seen := make(chan struct{}), make(chan lockevents.Event)
		var wg sync.WaitGroup
		wg.Go(func() {
			for e, err := range b.history.Follow(ctx, "user:43", 0) {
				if err != nil {
					t.Error(err)
				}
				seen <- e
			}
		})
		go func() { // Follow begins at some time: until it has, events are none of its
			defer close(following)
			quiet := 1100 * time.Millisecond // at first for longer than a read lasts
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(quiet):
				}
				quiet = 50 * time.Millisecond
				happens("user:42", "")
				happens("user:43", "")
			}
		}()
		for range 3 {
			if e := <-seen; e.Key != "user:43" || e.Kind != lockevents.Acquired || e.Label != "" {
				t.Errorf("%+v", e)
			}
		}
		cancel()
		<-following
		go func() {
			for range seen { // what was on its way
			}
		}()
		wg.Wait()
		close(seen)
		_ = b.Close()
	})
}

// The clock of a process is an hour ahead. Its events must not hide what happens in the next hour.
func TestAnEventIsNotLaterThanItsEntry(t *testing.T) {
	t.Parallel()
	b := newBook(t, redistest.Mini(t))
	stored := time.Now().Add(-time.Minute)
	for _, ahead := range []time.Duration{time.Hour, 0, math.MaxInt64 / 2} {
		stored = stored.Add(time.Second)
		line := fmt.Sprintf(`{"at_us":%d,"event":"lost","key":"user:42","label":"%v"}`, stored.UnixMicro()+ahead.Microseconds(), ahead)
		add := &redis.XAddArgs{Stream: "lockmw:events", ID: fmt.Sprintf("%d-0", stored.UnixMilli()), Values: []any{"process", "web:1", "events", line}}
		if err := b.rdb.XAdd(t.Context(), add).Err(); err != nil {
			t.Fatal(err)
		}
		if last := b.recent("user:42", 1)[0]; last.Label != ahead.String() || last.At.After(stored.Add(time.Millisecond)) {
			t.Errorf("the last event is %q, %v after its entry", last.Label, last.At.Sub(stored))
		}
	}
}

// Each process writes every 20 ms what it has seen since: an entry may be later in the stream than one with later events.
func TestRecentIsInTheOrderOfTimes(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	b := newBook(t, s)
	at := time.Date(2020, 11, 26, 12, 0, 0, 0, time.UTC)
	for process, offsets := range [][]int{{4, 20, 5}, {3, 10}, {30, 1}} {
		lines := ""
		for _, ms := range offsets {
			lines += fmt.Sprintf(`{"at_us":%d,"event":"acquired","key":"user:42","label":"%d"}`+"\n", at.UnixMicro()+int64(1000*ms), ms)
		}
		values := []any{"process", fmt.Sprint(process), "events", lines}
		if err := b.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "lockmw:events", Values: values}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range map[int]string{7: "1 3 4 5 10 20 30", 3: "10 20 30", 0: ""} {
		var labels []string
		for _, e := range b.recent("user:42", n) {
			labels = append(labels, e.Label)
		}
		if got := strings.Join(labels, " "); got != want {
			t.Errorf("the last %d are %q, want %q", n, got, want)
		}
	}
}

func TestBackReadsOnlyWhatIsNew(t *testing.T) {
	t.Parallel()
	b := newBook(t, redistest.Mini(t))
	write := func(n int) {
		for range n {
			values := []any{"process", "web:1", "events", `{"at_us":1,"event":"acquired","key":"user:42"}`}
			if err := b.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "lockmw:events", Values: values}).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var last string
	for _, want := range []int{250, 0, 1, 100} {
		write(want)
		got, first := 0, true
		for page, err := range b.history.Back(t.Context(), last) {
			if err != nil {
				t.Fatal(err)
			}
			if got += len(page.Events); first {
				last, first = page.LastID, false
			}
		}
		if got != want {
			t.Errorf("%d events, want %d", got, want)
		}
	}
}

func TestAForcedReleaseIsRecordedWithItsOperator(t *testing.T) {
	b := newBook(t, redistest.Mini(t))
	holder := lockmw.Holder{Process: "web-1:7:abc", Label: "order-1", Token: 7, Since: time.Now().Add(-time.Minute)}
	taken := []lockevents.Taken{{Key: "user:42", Mode: "fair", Holder: holder}}
	for i := range 300 { // more than an entry has
		taken = append(taken, lockevents.Taken{Key: fmt.Sprint("item:", i)})
	}
	if err := b.ForceUnlocked(t.Context(), "alice"+strings.Repeat("ü", 100), taken...); err != nil {
		t.Fatal(err)
	}
	events, err := b.history.Recent(t.Context(), "", 1000)
	if err != nil || len(events) != len(taken) {
		t.Fatalf("%d events, %v; want %d", len(events), err, len(taken))
	}
	e := events[0]
	if e.Kind != lockevents.Forced || e.Key != "user:42" || e.Mode != "fair" || e.Token != 7 || e.Label != "order-1" || e.Held < time.Minute || e.Process == "" ||
		e.Behind != (lockevents.Behind{Process: "web-1:7:abc", Label: "order-1", Token: 7}) {
		t.Errorf("%+v", e)
	}
	if !strings.HasPrefix(e.By, "aliceüü") || len(e.By) > 128 || strings.Contains(e.By, "\ufffd") {
		t.Errorf("by %q", e.By)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.ForceUnlocked(over, "bob", taken...); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}
