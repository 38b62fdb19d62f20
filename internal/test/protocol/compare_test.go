package protocol

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

// compare compares what the server has stored with the model.
func (w *twin) compare(*rapid.T) {
	for _, p := range w.state.pushes {
		w.batches[p.id] = filled(p.batch[:])
	}
	w.state.pushes = [maxPushes]push{}
	w.compareHolders()
	w.hadReaders = w.state.hasReader()
	w.compareQueue()
	w.compareKept()
	w.compareCounter()
	w.compareDone()
	w.state.tidyHistory()
	w.state.rankPlaces()
}

// promise records for how long an answer lets its process hold the lock.
func (w *twin) promise(id ident, ms int) {
	w.promised[id] = max(w.promised[id], time.Duration(ms)*time.Millisecond)
}

// compareHolders also checks that holds last as long as promised.
func (w *twin) compareHolders() {
	ctx := w.Context()
	now, err := w.rdb.Time(ctx).Result()
	w.check(err)
	fields, err := w.rdb.HGetAll(ctx, w.key).Result()
	w.check(err)
	ttl, err := w.rdb.PTTL(ctx, w.key).Result()
	w.check(err)
	w.compareBehind(fields["waiters"])
	w.compareBatch(fields["tokens"], fields["token"])
	left := make(map[string]time.Duration)
	for field, value := range fields {
		if id, ok := strings.CutPrefix(field, "reader:"); ok {
			var ends int64
			_, err := fmt.Sscan(value, &ends)
			w.check(err)
			left[id] = min(ttl+time.Second, time.UnixMilli(ends).Sub(now))
		} else if field == "id" {
			left[value] = ttl
		}
	}
	for _, id := range append(w.state.readers[:], w.state.holder) {
		if id == nobody {
			continue
		}
		if got, ok := left[id.String()]; !ok || got < w.promised[id]-time.Minute {
			w.Errorf("the server keeps the hold %v for %v, and promised %v", id, got, w.promised[id])
		}
		delete(left, id.String())
	}
	maps.DeleteFunc(w.promised, func(id ident, _ time.Duration) bool { return !w.state.has(id) })
	maps.DeleteFunc(w.batches, func(id ident, _ int) bool { return !w.state.has(id) }) // a later hold by the same id has a batch of its own
	if len(left) > 0 {
		w.Errorf("holds that the model does not have: %v", left)
	}
}

// compareBehind compares the number of calls that the server shows behind the holder, in its process.
func (w *twin) compareBehind(field string) {
	want := 0
	if w.state.holder != nobody {
		want = w.behind[w.state.holder]
	}
	got := 0
	if field != "" {
		_, err := fmt.Sscan(field, &got)
		w.check(err)
	}
	if got != want {
		w.Errorf("calls behind %v: %d on the server, want %d", w.state.holder, got, want)
	}
}

// compareBatch compares the number of reserved tokens. They come from microseconds that have passed. There are none if the
// granting execution has already used the present microsecond, for a place or to look for live readers.
func (w *twin) compareBatch(tokens, first string) {
	id, got, want := w.state.holder, "1", "1"
	if tokens != "" {
		got = tokens
	}
	if id != nobody {
		want = fmt.Sprint(1 + w.batches[id])
	}
	switch {
	case got == want:
	case got == "1" && (w.hadReaders || w.isPlaceBefore(first)):
		w.batches[id] = 0 // no microsecond was left for tokens
	default:
		w.Errorf("the server grants %v the lock with %s tokens, want %s", id, got, want)
	}
}

// isPlaceBefore reports whether a ticket or a kept place has the number directly before a token.
func (w *twin) isPlaceBefore(first string) bool {
	token, err := strconv.ParseInt(first, 10, 64)
	w.check(err)
	place := strconv.FormatInt(token-1, 10)
	there, err := w.rdb.ZCount(w.Context(), w.key+":queue", place, place).Result()
	w.check(err)
	return there > 0 || w.rdb.Get(w.Context(), w.kept()).Val() == place
}

const crowd = "#readers" // the queue's entry for all waiting readers

func (w *twin) compareQueue() {
	var wantQueue, wantReaders []string
	for _, t := range w.state.queue {
		switch {
		case t.id != nobody && !t.reads:
			wantQueue = append(wantQueue, t.id.String())
		case t.id != nobody:
			if wantReaders == nil {
				wantQueue = append(wantQueue, crowd)
			}
			wantReaders = append(wantReaders, t.id.String())
		}
	}
	queue, err := w.rdb.ZRange(w.Context(), w.key+":queue", 0, -1).Result()
	w.check(err)
	readers, err := w.rdb.ZRange(w.Context(), w.key+":readqueue", 0, -1).Result()
	w.check(err)
	if !slices.Equal(queue, wantQueue) || !slices.Equal(readers, wantReaders) {
		w.Errorf("the queue has %q and the readers %q, want %q and %q", queue, readers, wantQueue, wantReaders)
	}
}

// compareKept compares the tickets before the kept place, and at it.
func (w *twin) compareKept() {
	kept, err := w.rdb.Get(w.Context(), w.kept()).Result()
	if err != nil && err != redis.Nil {
		w.Fatal(err)
	}
	isKept := err == nil && kept != "0" // 0 marks an ended place
	if isKept != (w.state.kept != 0) {
		w.Fatalf("kept place: %q on the server, %d in the model", kept, w.state.kept)
	}
	if !isKept {
		return
	}
	for _, upTo := range []string{"(" + kept, kept} {
		queue, err := w.rdb.ZRangeArgs(w.Context(), redis.ZRangeArgs{Key: w.key + ":queue", ByScore: true, Start: "-inf", Stop: upTo}).Result()
		w.check(err)
		var want []string
		for _, t := range w.state.queue {
			if t.id != nobody && !t.reads && (t.place < w.state.kept || t.place == w.state.kept && upTo == kept) {
				want = append(want, t.id.String())
			}
		}
		queue = slices.DeleteFunc(queue, func(s string) bool { return s == crowd })
		if !slices.Equal(queue, want) {
			w.Errorf("tickets before the kept place: %q, want %q", queue, want)
		}
	}
}

// compareCounter allows for numbers that were reserved but not used.
func (w *twin) compareCounter() {
	fence, err := w.rdb.Get(w.Context(), w.key+":fence").Int64()
	if err != nil && err != redis.Nil {
		w.Fatal(err)
	}
	if w.state.counter > w.counter && fence == w.fence || fence < w.fence {
		w.Errorf("the server's counter went from %d to %d, the model's from %d to %d", w.fence, fence, w.counter, w.state.counter)
	}
	w.counter, w.fence = w.state.counter, fence
}

func (w *twin) compareDone() {
	for _, id := range ids() {
		if n, err := w.rdb.Exists(w.Context(), w.done(id)).Result(); err != nil || (n == 1) != w.state.isDone(id) {
			w.Errorf("%v has a done mark: %v on the server, %v; want %v", id, n == 1, err, w.state.isDone(id))
		}
	}
}

// inbox names the inbox of an id's process.
func (w *twin) inbox(id ident) string {
	if id.number() == toBatch {
		return "inbox:batch"
	}
	return fmt.Sprintf("inbox:%d", id.process())
}

// now returns the server's time (ms).
func (w *twin) now() int64 {
	now, err := w.rdb.Time(w.Context()).Result()
	w.check(err)
	return now.UnixMilli()
}

func (w *twin) peek(t *rapid.T) {
	id, queue := drawID(t, "id"), w.key+":queue"
	if n := w.state.index(id); n >= 0 && w.state.queue[n].reads {
		queue = w.key + ":readqueue"
	}
	keys := []string{w.key + ":fence", w.key, queue}
	list, err := w.rdb.Eval(w.Context(), w.scripts["peek"].Source, keys, id.String()).Slice()
	w.check(err)
	got := answer{}
	switch {
	case list[4] == int64(3):
		got.outcome = granted
	case list[1] != int64(0) && list[2] != int64(0):
		got.outcome = asItWas
		w.wantStamp([]any{0, list[0]})
	}
	if want := w.protocol.runPeek(&w.state, id); got.outcome != want.outcome {
		w.Errorf("peek: the server answers %v, the model %v", list, names[want.outcome])
	}
}
