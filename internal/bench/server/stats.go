package server

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Stats is what the server has done since it started.
type Stats struct {
	// Calls has the number of calls of each command, whether a client sent it or a script ran it.
	Calls map[string]int64
	// CPU is the processor time of the whole server.
	CPU time.Duration
}

// Stats reads the server's statistics. The cost of reading is not in the result, but in the next one.
func (s *Server) Stats(ctx context.Context) (Stats, error) {
	info, err := s.info(ctx, "commandstats", "cpu")
	if err != nil {
		return Stats{}, fmt.Errorf("reading the server's statistics: %w", err)
	}
	stats := Stats{Calls: make(map[string]int64)}
	for name, value := range info {
		if command, ok := strings.CutPrefix(name, "cmdstat_"); ok {
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			n, err := strconv.ParseInt(calls, 10, 64)
			if err != nil {
				return Stats{}, fmt.Errorf("the server's statistics: %s:%s", name, value)
			}
			stats.Calls[command] = n
		}
	}
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		seconds, err := strconv.ParseFloat(info[name], 64)
		if err != nil {
			return Stats{}, fmt.Errorf("the server's statistics: %s:%s", name, info[name])
		}
		stats.CPU += time.Duration(seconds * float64(time.Second))
	}
	return stats, nil
}

// info returns the fields of sections of INFO.
func (s *Server) info(ctx context.Context, sections ...string) (map[string]string, error) {
	text, err := s.rdb.Info(ctx, sections...).Result()
	if err != nil {
		return nil, err
	}
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info, nil
}

// Since returns what was done after earlier, without the reading of earlier itself.
func (t Stats) Since(earlier Stats) Stats {
	d := Stats{Calls: make(map[string]int64), CPU: t.CPU - earlier.CPU}
	for command, n := range t.Calls {
		if n -= earlier.Calls[command]; n != 0 {
			d.Calls[command] = n
		}
	}
	if d.Calls["info"]--; d.Calls["info"] == 0 {
		delete(d.Calls, "info")
	}
	return d
}

// clientOnly lists commands that scripts never run here: all that libraries of locks send, except for the
// commands that their scripts also use.
var clientOnly = []string{
	"eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "script", "hello", "auth", "select", "client",
	"info", "ping", "subscribe", "unsubscribe", "psubscribe", "ssubscribe", "cluster", "command", "multi",
	"exec", "watch", "quit",
}

// Sent returns how many commands clients sent. A script is one, whatever it runs. also names further commands
// that clients send and no script runs.
func (t Stats) Sent(also []string) int64 {
	var n int64
	for command, calls := range t.Calls {
		command, _, _ = strings.Cut(command, "|") // "client|setinfo" is a subcommand
		if slices.Contains(clientOnly, command) || slices.Contains(also, command) {
			n += calls
		}
	}
	return n
}

// All returns how many commands ran, including those within scripts.
func (t Stats) All() int64 {
	var n int64
	for _, calls := range t.Calls {
		n += calls
	}
	return n
}
