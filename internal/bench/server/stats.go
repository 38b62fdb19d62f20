package server

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Stats are the totals of the server since it started.
type Stats struct {
	// Calls has the number of calls of each command, by clients and by scripts.
	Calls map[string]int64
	// CPU is the processor time of the whole server.
	CPU time.Duration
	// Scripts is the total time of scripts.
	Scripts time.Duration
	// Bus is how many messages of plain channels the nodes of a Cluster sent to each other.
	Bus int64

	reads map[string]int64 // commands that the next statistics contain because of this reading
}

// Stats reads the server's statistics; those of a Cluster are the sums over its nodes. The result does not contain the cost of
// reading; the next one does.
func (s *Server) Stats(ctx context.Context) (Stats, error) {
	stats := Stats{Calls: make(map[string]int64), reads: make(map[string]int64)}
	for _, rdb := range s.rdbs {
		if err := stats.add(ctx, rdb, s.Nodes != nil); err != nil {
			return Stats{}, fmt.Errorf("the server's statistics: %w", err)
		}
	}
	return stats, nil
}

// add adds the statistics of one server.
func (t *Stats) add(ctx context.Context, rdb *redis.Client, isNode bool) error {
	if isNode {
		bus, err := fieldsOf(rdb.ClusterInfo(ctx))
		if err != nil {
			return err
		}
		sent, _ := strconv.ParseInt(bus["cluster_stats_messages_publish_sent"], 10, 64) // missing if it is 0
		t.Bus += sent
		t.reads["cluster|info"]++
	}
	t.reads["info"]++
	info, err := infoOf(ctx, rdb, "commandstats", "cpu")
	if err != nil {
		return err
	}
	for name, value := range info {
		if command, ok := strings.CutPrefix(name, "cmdstat_"); ok {
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			n, err := strconv.ParseInt(calls, 10, 64)
			if err != nil {
				return fmt.Errorf("%s:%s", name, value)
			}
			t.Calls[command] += n
			if command == "evalsha" || command == "eval" {
				_, after, _ := strings.Cut(value, "usec=")
				took, _, _ := strings.Cut(after, ",")
				us, err := strconv.ParseInt(took, 10, 64)
				if err != nil {
					return fmt.Errorf("%s:%s", name, value)
				}
				t.Scripts += time.Duration(us) * time.Microsecond
			}
		}
	}
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		seconds, err := strconv.ParseFloat(info[name], 64)
		if err != nil {
			return fmt.Errorf("%s:%s", name, info[name])
		}
		t.CPU += time.Duration(seconds * float64(time.Second))
	}
	return nil
}

// infoOf returns the fields of sections of INFO.
func infoOf(ctx context.Context, rdb *redis.Client, sections ...string) (map[string]string, error) {
	return fieldsOf(rdb.Info(ctx, sections...))
}

// fieldsOf returns the fields of an answer of INFO or CLUSTER INFO.
func fieldsOf(answer *redis.StringCmd) (map[string]string, error) {
	text, err := answer.Result()
	if err != nil {
		return nil, err
	}
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// Since returns the difference to earlier, without the reading of earlier itself.
func (t Stats) Since(earlier Stats) Stats {
	d := Stats{Calls: make(map[string]int64), CPU: t.CPU - earlier.CPU, Scripts: t.Scripts - earlier.Scripts, Bus: t.Bus - earlier.Bus}
	for command, n := range t.Calls {
		if n -= earlier.Calls[command]; n != 0 {
			d.Calls[command] = n
		}
	}
	for command, n := range t.reads {
		if d.Calls[command] -= n; d.Calls[command] == 0 {
			delete(d.Calls, command)
		}
	}
	return d
}

// clientOnly lists commands that no script runs here: all commands that libraries of locks send, except those that their
// scripts also use.
var clientOnly = []string{
	"eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "script", "hello", "auth", "select", "client",
	"info", "ping", "subscribe", "unsubscribe", "psubscribe", "ssubscribe", "cluster", "command", "multi",
	"exec", "watch", "quit",
}

// Sent returns how many commands clients sent. A script counts as one. also names further commands that only clients send.
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
