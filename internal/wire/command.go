package wire

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// A Command is a command that was sent to the server, as a list of words.
type Command []string

// IsScript reports whether c runs a script.
func (c Command) IsScript() bool {
	return len(c) > 1 && (strings.EqualFold(c[0], "evalsha") || strings.EqualFold(c[0], "eval"))
}

// Script returns the keys and the arguments of a script.
func (c Command) Script() (keys, args []string) {
	if !c.IsScript() || len(c) < 3 {
		return nil, nil
	}
	n, err := strconv.Atoi(c[2])
	if err != nil || n < 0 || len(c) < 3+n {
		return nil, nil
	}
	return c[3 : 3+n], c[3+n:]
}

// Concerns reports whether a word of c contains s.
func (c Command) Concerns(s string) bool {
	return slices.ContainsFunc(c, func(word string) bool { return strings.Contains(word, s) })
}

// Watch calls f with every command, before it is sent, one at a time. f must be quick, and must not use w.
func (w *Wire) Watch(f func(Command)) { w.set(func() { w.watch = f }) }

// A parser extracts commands from the bytes of a connection: arrays of bulk strings.
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

// parseCommand is not ok if b does not contain a whole command yet.
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
