package asynqmw

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

func TestTheRequeueDelayDoublesUpToTheLongest(t *testing.T) {
	for _, tt := range []struct {
		shortest, longest time.Duration
		requeued          int
		want              time.Duration // the longest possible delay
	}{
		{time.Second, 15 * time.Second, 0, 2 * time.Second},
		{time.Second, 15 * time.Second, 1, 4 * time.Second},
		{time.Second, 15 * time.Second, 2, 8 * time.Second},
		{time.Second, 15 * time.Second, 3, 15 * time.Second},
		{time.Second, 15 * time.Second, math.MaxInt, 15 * time.Second},
		{time.Second, 8 * time.Second, 2, 8 * time.Second},
		{0, time.Hour, 0, 2 * time.Second},
		{0, time.Hour, 1, 4 * time.Second},
		{0, 0, 5, 0},
		{time.Hour, time.Hour, 0, time.Hour},
		{time.Hour, math.MaxInt64, 1, 4 * time.Hour},
		{math.MaxInt64 - 10, math.MaxInt64, 40, math.MaxInt64},
	} {
		c := &config{minDelay: tt.shortest, maxDelay: tt.longest}
		var longest time.Duration
		for range 2000 {
			d := c.backOff(tt.requeued)
			if d < tt.shortest || d > tt.want {
				t.Fatalf("%+v: delay %v", tt, d)
			}
			longest = max(longest, d)
		}
		if reached := tt.shortest + (tt.want-tt.shortest)/10*9; longest < reached {
			t.Errorf("%+v: no delay of 2000 is longer than %v", tt, longest)
		}
	}
}

func TestOldCountsOfRequeuesAreDropped(t *testing.T) {
	var r requeues
	r.set("first", 3)
	for i := range maxCounted - 1 {
		r.set(strconv.Itoa(i), 1)
	}
	if n := r.take("first"); n != 3 {
		t.Errorf("counted %d, want 3", n)
	}
	r.set("first", 4)
	for i := range maxCounted + 1 {
		r.set("later"+strconv.Itoa(i), 1)
	}
	if n := r.take("first"); n != 0 {
		t.Errorf("counted %d after many others, want 0", n)
	}
	if n := len(r.recent) + len(r.older); n > 2*maxCounted {
		t.Errorf("the counts of %d tasks are kept", n)
	}
	r.set("x", 1)
	if n, again := r.take("x"), r.take("x"); n != 1 || again != 0 {
		t.Errorf("counted %d, and %d after it was taken", n, again)
	}
}

func TestOriginOfACopy(t *testing.T) {
	const k = "ABCDEF27"
	for _, tt := range []struct {
		id, header, origin string
		requeued           int
	}{
		{"a", "", "a", 0},
		{"a~2-" + k, "2-" + k, "a", 2},
		{"a~2-" + k + "~3-" + k, "3-" + k, "a~2-" + k, 3},
		{"a~2-" + k, "", "a~2-" + k, 0},
		{"a~2", "2", "a~2", 0},
		{"a", "2-" + k, "a", 0},
		{"~2-" + k, "2-" + k, "~2-" + k, 0},
		{"a~0-" + k, "0-" + k, "a~0-" + k, 0},
		{"a~02-" + k, "02-" + k, "a~02-" + k, 0},
		{"a~+2-" + k, "+2-" + k, "a~+2-" + k, 0},
		{"a~-2", "-2", "a~-2", 0},
		{"a~x-" + k, "x-" + k, "a~x-" + k, 0},
		{"a~2-K", "2-K", "a~2-K", 0},
		{"a~2-abcdefgh", "2-abcdefgh", "a~2-abcdefgh", 0},
		{"a~2-" + k + "\n", "2-" + k + "\n", "a~2-" + k + "\n", 0},
		{"a~9223372036854775807-" + k, "9223372036854775807-" + k, "a~9223372036854775807-" + k, 0},
		{"", "", "", 0},
	} {
		first, n := origin(tt.id, map[string]string{rescuedHeader: tt.header})
		if first != tt.origin || n != tt.requeued {
			t.Errorf("origin(%q, %q) = %q, %d, want %q, %d", tt.id, tt.header, first, n, tt.origin, tt.requeued)
		}
	}
	if m := newMark(7); !mark.MatchString(m) {
		t.Errorf("%q is no mark", m)
	}
	if first, n := origin("a~1", nil); first != "a~1" || n != 0 {
		t.Errorf("without headers: %q, %d", first, n)
	}
}

func TestAPlaceIDIsNeverLongerThanAllowed(t *testing.T) {
	if got := placeID("id"); got != "id" {
		t.Errorf("place %q, want the ID", got)
	}
	a, b := placeID(strings.Repeat("x", 300)), placeID(strings.Repeat("x", 301))
	if a == b || len(a) > 200 {
		t.Errorf("places %q and %q", a, b)
	}
}

func TestATaskIsNotACopyOfATaskThatStillExists(t *testing.T) {
	rdb := redistest.Mini(t).NewClient(t)
	check := func(queues *parked.Store, origin string, requeued int) {
		t.Helper()
		g := &guard{config: &config{}, queues: queues, locker: lockmw.NewLocal()}
		a := &attempt{ctx: t.Context(), queue: "default", id: "a~2-ABCDEFGH", origin: "a", requeued: 2}
		if g.checkOrigin(a, "order:fulfil"); a.origin != origin || a.requeued != requeued {
			t.Errorf("a copy of %q, queued again %d times; want %q, %d", a.origin, a.requeued, origin, requeued)
		}
	}
	queues, task := &parked.Store{Redis: rdb}, parked.TaskPrefix("default")+"a"
	check(queues, "a", 2) // its task was deleted
	for _, state := range []string{"active", "pending", "retry", "archived", "completed"} {
		rdb.HSet(t.Context(), task, "state", state)
		check(queues, "a~2-ABCDEFGH", 0)
	}
	check(nil, "a", 2) // the queue is unknown
	rdb.Set(t.Context(), task, "not a task", 0)
	check(queues, "a", 2)
}
