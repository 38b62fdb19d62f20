package lockevents

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// A History reads the events of locks. Safe for concurrent use.
type History struct {
	*config
	rdb redis.UniversalClient
}

// NewHistory returns the History of the locks with a prefix; of the options only WithPrefix matters. An error wraps
// lockmw.ErrInvalidOption.
func NewHistory(rdb redis.UniversalClient, opts ...Option) (*History, error) {
	c, err := newConfig(rdb, opts)
	if err != nil {
		return nil, err
	}
	return &History{c, rdb}, nil
}

// pageSize is how many entries are read at once.
const pageSize = 100

// Recent returns the last n events of a key, or of all keys if it is "", the latest one last. It reads the stream from its end,
// in pages, until it has them, and all of it if there are fewer. Without a stream there are none. An error is Redis' own.
func (h *History) Recent(ctx context.Context, key string, n int) (events []Event, err error) {
	end := "+"
	for len(events) < n {
		entries, err := h.rdb.XRevRangeN(ctx, h.stream(), end, "-", pageSize).Result()
		if err != nil {
			return nil, fmt.Errorf("lockevents: %w", err)
		}
		for _, entry := range entries { // the latest one first
			end = "(" + entry.ID
			all := eventsOf(entry, key)
			slices.Reverse(all)
			events = append(events, all...)
		}
		if len(entries) < pageSize {
			break
		}
	}
	events = events[:min(n, len(events))]
	slices.Reverse(events)
	return events, nil
}

// eventsOf returns those of a key in an entry.
func eventsOf(entry redis.XMessage, key string) []Event {
	text, _ := entry.Values["events"].(string)
	process, _ := entry.Values["process"].(string)
	dropped := 0
	if n, ok := entry.Values["dropped"].(string); ok {
		dropped, _ = strconv.Atoi(n)
	}
	all := decode(text, process, dropped)
	if key == "" {
		return all
	}
	return slices.DeleteFunc(all, func(e Event) bool { return e.Key != key })
}

// blocks is how long the server is asked to wait for an event. It takes a connection of the pool.
const blocks = time.Second

// Follow yields the events of a key, or of all keys if it is "", from now on, until ctx ends. An error comes once, and ends it; it is
// Redis' own, and none when ctx ends.
func (h *History) Follow(ctx context.Context, key string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		last, err := h.lastID(ctx)
		for err == nil {
			var streams []redis.XStream
			streams, err = h.rdb.XRead(ctx, &redis.XReadArgs{Streams: []string{h.stream(), last}, Count: pageSize, Block: blocks}).Result()
			if errors.Is(err, redis.Nil) {
				err = nil // there was none
			}
			for _, s := range streams {
				for _, entry := range s.Messages {
					last = entry.ID
					for _, e := range eventsOf(entry, key) {
						if !yield(e, nil) {
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

// lastID returns the id of the last entry.
func (h *History) lastID(ctx context.Context) (string, error) {
	entries, err := h.rdb.XRevRangeN(ctx, h.stream(), "+", "-", 1).Result()
	if err != nil || len(entries) == 0 {
		return "0", err
	}
	return entries[0].ID, nil
}
