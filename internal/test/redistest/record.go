package redistest

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A Command is one that was sent to the server, word by word.
type Command []string

// IsScript reports whether c runs a script.
func (c Command) IsScript() bool {
	return len(c) > 1 && (strings.EqualFold(c[0], "evalsha") || strings.EqualFold(c[0], "eval"))
}

// Concerns reports whether one of c's words contains s.
func (c Command) Concerns(s string) bool {
	return slices.ContainsFunc(c, func(word string) bool { return strings.Contains(word, s) })
}

// Run sends c once more, by way of rdb.
func (c Command) Run(ctx context.Context, rdb redis.UniversalClient) (any, error) {
	args := make([]any, len(c))
	for i, word := range c {
		args[i] = word
	}
	return rdb.Do(ctx, args...).Result()
}

// Record begins to note every command, and forgets those noted before.
func (w *Wire) Record() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recorded = new([]Command)
}

// Sent returns the commands noted since Record, in the order of their writing.
func (w *Wire) Sent() []Command {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.recorded == nil {
		return nil
	}
	return slices.Clone(*w.recorded)
}

// A parser takes commands out of what a connection writes: arrays of bulk strings.
type parser struct{ rest []byte }

func (p *parser) parse(b []byte) []Command {
	p.rest = append(p.rest, b...)
	var commands []Command
	for {
		c, rest, ok := parseCommand(p.rest)
		if !ok {
			return commands
		}
		commands, p.rest = append(commands, c), rest
	}
}

// parseCommand is not ok if b does not hold a whole command yet.
func parseCommand(b []byte) (c Command, rest []byte, ok bool) {
	words, rest, ok := parseNumber(b, '*')
	for ; ok && words > 0; words-- {
		var n int
		if n, rest, ok = parseNumber(rest, '$'); !ok || len(rest) < n+2 {
			return nil, nil, false
		}
		c, rest = append(c, string(rest[:n])), rest[n+2:]
	}
	return c, rest, ok
}

func parseNumber(b []byte, mark byte) (n int, rest []byte, ok bool) {
	line, rest, ok := bytes.Cut(b, []byte("\r\n"))
	if !ok || len(line) == 0 || line[0] != mark {
		return 0, nil, false
	}
	n, err := strconv.Atoi(string(line[1:]))
	return n, rest, err == nil
}

// Conns returns how many connections are open.
func (w *Wire) Conns() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.conns)
}
