package lockevents

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// A History reads recorded events. Safe for concurrent use.
type History struct {
	rdb    redis.UniversalClient
	stream string
}

// NewHistory returns the History of the locks that an Inspector shows. It panics if the Inspector is nil.
func NewHistory(insp *lockmw.Inspector) *History {
	option.NotNil(insp, "lockevents: NewHistory: the Inspector is nil")
	return &History{insp.Redis(), streamOf(insp)}
}

// pageSize is the number of entries that one command reads.
const pageSize = 100

// Recent returns the last n events of key, or of all keys if key is "", sorted by time. It reads the stream in pages from its end
// until it has n events, so it reads all of the stream if there are fewer. Without a stream it returns none. An error wraps that
// of Redis.
func (h *History) Recent(ctx context.Context, key string, n int) (events []Event, err error) {
	events, _, err = h.recent(ctx, key, n)
	return events, err
}

// recent is Recent, and returns the id of the last entry of the stream at that time, or "0" if there is none.
func (h *History) recent(ctx context.Context, key string, n int) (events []Event, lastID string, err error) {
	if n <= 0 {
		return nil, "", nil
	}
	lastID = "0"
	for page, err := range h.Back(ctx, "") {
		if err != nil {
			return nil, "", err
		}
		if lastID == "0" {
			lastID = page.LastID
		}
		for _, e := range page.Events {
			if key == "" || e.Key == key {
				events = append(events, e)
			}
		}
		if len(events) >= n {
			break
		}
	}
	SortByTime(events)
	return events[max(len(events)-n, 0):], lastID, nil
}

// SortByTime sorts events by At. In the stream, the events of several processes are not in order.
func SortByTime(events []Event) {
	slices.SortStableFunc(events, func(a, b Event) int { return a.At.Compare(b.At) })
}

// A Page contains the events of some entries of the stream.
type Page struct {
	Events []Event // of all keys, in the order in which each process wrote them
	LastID string  // id of the latest of these entries
}

// Back yields the events of all keys in pages of 100 entries, from the end of the stream back to the entry after the id after, or
// to the beginning if after is "". To get only newer events the next time, pass the LastID of the first page. Back reads each
// page only when the caller asks for it. It yields at most one error, which wraps that of Redis, and then ends.
func (h *History) Back(ctx context.Context, after string) iter.Seq2[Page, error] {
	option.NotNil(h.rdb, "lockevents: the History was not made by NewHistory")
	return func(yield func(Page, error) bool) {
		start, end := "-", "+"
		if after != "" {
			start = "(" + after
		}
		for more := true; more; {
			entries, err := h.rdb.XRevRangeN(ctx, h.stream, end, start, pageSize).Result()
			if err != nil {
				yield(Page{}, fmt.Errorf("lockevents: %w", err))
				return
			}
			if len(entries) == 0 {
				return
			}
			page := Page{LastID: entries[0].ID}
			for _, entry := range slices.Backward(entries) {
				page.Events = append(page.Events, eventsOf(entry)...)
			}
			end = "(" + entries[len(entries)-1].ID
			more = yield(page, nil) && len(entries) == pageSize
		}
	}
}

// eventsOf returns the events in an entry. None is later than the entry, which has the time of Redis: the events of a process whose clock
// is ahead would hide later ones.
func eventsOf(entry redis.XMessage) []Event {
	text, _ := entry.Values["events"].(string)
	process, _ := entry.Values["process"].(string)
	count, _ := entry.Values["dropped"].(string)
	dropped, _ := strconv.Atoi(count) // 0 if the field is missing
	events := decode(text, process, dropped)
	ms, _, _ := strings.Cut(entry.ID, "-")
	if stored, err := strconv.ParseInt(ms, 10, 64); err == nil {
		for i := range events {
			if at := core.Instant(stored+1, time.Millisecond); events[i].At.After(at) {
				events[i].At = at
			}
		}
	}
	return events
}

// blocks is how long one command waits for an event at the server. It takes a connection of the pool meanwhile.
const blocks = time.Second

// Follow yields the last n events of key, or of all keys if key is "", as Recent does, and then each new one, until ctx ends. It yields
// at most one error, which wraps that of Redis, and then ends. The end of ctx is not an error. Follow uses a connection of the redis
// client's pool.
func (h *History) Follow(ctx context.Context, key string, n int) iter.Seq2[Event, error] {
	option.NotNil(h.rdb, "lockevents: the History was not made by NewHistory")
	return func(yield func(Event, error) bool) {
		events, last, err := h.recent(ctx, key, n)
		if n <= 0 {
			last, err = h.lastID(ctx)
		}
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
		for err == nil {
			var streams []redis.XStream
			streams, err = h.rdb.XRead(ctx, &redis.XReadArgs{Streams: []string{h.stream, last}, Count: pageSize, Block: blocks}).Result()
			if errors.Is(err, redis.Nil) {
				err = nil // there was none
			}
			for _, s := range streams {
				for _, entry := range s.Messages {
					last = entry.ID
					for _, e := range eventsOf(entry) {
						if (key == "" || e.Key == key) && !yield(e, nil) {
							return
						}
					}
				}
			}
			if ctx.Err() != nil {
				return
			}
		}
		if ctx.Err() == nil {
			yield(Event{}, fmt.Errorf("lockevents: %w", err))
		}
	}
}

// lastID returns the id of the last entry, or "0" if there is none.
func (h *History) lastID(ctx context.Context) (string, error) {
	entries, err := h.rdb.XRevRangeN(ctx, h.stream, "+", "-", 1).Result()
	if err != nil || len(entries) == 0 {
		return "0", err
	}
	return entries[0].ID, nil
}
