package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/transport"
)

// A try is a command that locks need, on a scratch key. Those who need it only at times say for what.
type try struct {
	right   string // as ACL SETUSER has it, without the sign
	command []any  // scratchKey stands for the key
	only    string // "": all locks
	cluster bool   // of a Cluster only
}

// scratchKey and scratchChannel stand for names in a try.
const (
	scratchKey     = "\x00key"
	scratchChannel = "\x00channel"
)

// forInspector is what only those who look at locks do.
const forInspector = "for lockmw.Inspector and the command lockmw"

// tries are in the order in which they can be done: each finds what those before it have written.
var tries = []try{
	{right: "ping", command: []any{"ping"}},
	{right: "time", command: []any{"time"}},
	{right: "set", command: []any{"set", scratchKey, "1", "px", "10000"}},
	{right: "get", command: []any{"get", scratchKey}},
	{right: "exists", command: []any{"exists", scratchKey}},
	{right: "pexpire", command: []any{"pexpire", scratchKey, "10000"}},
	{right: "pttl", command: []any{"pttl", scratchKey}},
	{right: "eval", command: []any{"eval", "return 1", "1", scratchKey}},
	{right: "evalsha", command: []any{"evalsha", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "1", scratchKey}}, // of that script
	{right: "del", command: []any{"del", scratchKey}},
	{right: "hset", command: []any{"hset", scratchKey, "a", "1", "b", "2"}},
	{right: "pexpire", command: []any{"pexpire", scratchKey, "10000"}},
	{right: "hget", command: []any{"hget", scratchKey, "a"}},
	{right: "hmget", command: []any{"hmget", scratchKey, "a", "b"}},
	{right: "hgetall", command: []any{"hgetall", scratchKey}},
	{right: "hlen", command: []any{"hlen", scratchKey}},
	{right: "hscan", command: []any{"hscan", scratchKey, "0"}},
	{right: "hdel", command: []any{"hdel", scratchKey, "a", "b"}},
	{right: "zadd", command: []any{"zadd", scratchKey, "1", "a", "2", "b"}},
	{right: "pexpire", command: []any{"pexpire", scratchKey, "10000"}},
	{right: "zcard", command: []any{"zcard", scratchKey}},
	{right: "zcount", command: []any{"zcount", scratchKey, "-inf", "+inf"}},
	{right: "zscore", command: []any{"zscore", scratchKey, "a"}},
	{right: "zrank", command: []any{"zrank", scratchKey, "a"}},
	{right: "zrange", command: []any{"zrange", scratchKey, "0", "-1"}},
	{right: "zrangebyscore", command: []any{"zrangebyscore", scratchKey, "-inf", "+inf"}},
	{right: "zrem", command: []any{"zrem", scratchKey, "a", "b"}},
	{right: "publish", command: []any{"publish", scratchChannel, "1"}},
	{right: "spublish", command: []any{"spublish", scratchChannel, "1"}, cluster: true},
	{right: "scan", command: []any{"scan", "0", "match", scratchKey, "count", "1"}, only: forInspector},
	{right: "info", command: []any{"info", "server"}, only: "for warnings of eviction, shared commands and WithQuarantine"},
	{right: "config|get", command: []any{"config", "get", "maxmemory-policy"}, only: "for WithQuarantine"},
	{right: "wait", command: []any{"wait", "0", "1"}, only: "for WithReplicas"},
}

// A demand is a set of rights that some code needs.
type demand struct {
	check, by string                       // the name of the check, and the code
	names     func(tag string) map[any]any // the names for scratchKey and scratchChannel
	patterns  map[string]string            // what allows them: keys by "~", channels by "&"
	tries     []try
}

// demands are what to try.
func (e *examination) demands() []demand {
	prefix := e.options.Prefix
	all := []demand{{
		check: "rights", by: "locks", tries: tries,
		names: func(tag string) map[any]any {
			return map[any]any{scratchKey: prefix + ":" + tag, scratchChannel: prefix + ":inbox:" + tag}
		},
		patterns: map[string]string{"~": "~" + prefix + ":*", "&": "&" + prefix + ":inbox:*"},
	}}
	if e.options.Asynq {
		all = append(all, asynqDemand)
	}
	return all
}

// checkRights tries what locks need, and asynq if that is asked for, at each master: rights are given at each.
func (e *examination) checkRights(ctx context.Context) {
	var all []Finding
	for _, d := range e.demands() {
		e.findings = nil
		for _, s := range e.masters() {
			tag, err := e.tagAt(ctx, s)
			if err != nil {
				e.noteOf(s, d.check, Unknown, remedyOf(err), "%v", err)
				continue
			}
			e.checkRightsAt(ctx, s, d, tag)
		}
		e.noteSame(e.masters())
		all = append(all, e.findings...)
	}
	e.findings = all
}

// tagAt returns a hash tag whose keys are at a server.
func (e *examination) tagAt(ctx context.Context, s *server) (string, error) {
	cluster := transport.ClusterOf(e.rdb)
	for {
		tag := "{doctor:" + rand.Text()[:10] + "}"
		if cluster == nil {
			return tag, nil
		}
		node, err := cluster.MasterForKey(ctx, tag)
		if err != nil {
			return "", err
		}
		if node == s.client {
			return tag, nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
}

func (e *examination) checkRightsAt(ctx context.Context, s *server, d demand, tag string) {
	names := d.names(tag)
	var missing []string
	optional := make(map[string][]string) // by what they are for
	rights := 0
	for _, t := range d.tries {
		if t.cluster && !e.topology.Cluster {
			continue
		}
		rights++
		args := make([]any, len(t.command))
		for i, arg := range t.command {
			args[i] = arg
			if name, ok := names[arg]; ok {
				args[i] = name
			}
		}
		err := s.do(ctx, args)
		if remedy := refusal(err); remedy != "" {
			e.noteOf(s, d.check, Unknown, remedy, "the user's rights are not known, as the server refuses commands: %v", err)
			return
		}
		right, rule := denied(err), "+"+t.right
		if pattern := d.patterns[right]; pattern != "" {
			rule = "'" + pattern + "'"
		}
		switch {
		case right == "":
		case t.only != "":
			optional[t.only] = append(optional[t.only], rule)
		case right != "+":
			e.noteOf(s, d.check, Failure, "ACL SETUSER … "+rule, "%v", err)
			return
		case !slices.Contains(missing, rule): // some are tried for several kinds of keys
			missing = append(missing, rule)
		}
	}
	if len(missing) > 0 {
		rights := strings.Join(missing, " ")
		e.noteOf(s, d.check, Failure, "ACL SETUSER … "+rights, "the user may not do what %s need: %s", d.by, rights)
	}
	for _, t := range d.tries {
		if rights := strings.Join(optional[t.only], " "); rights != "" {
			e.noteOf(s, d.check, Advice, "ACL SETUSER … "+rights, "the user may not do what is needed %s: %s", t.only, rights)
			delete(optional, t.only)
		}
	}
	if len(missing) == 0 {
		e.noteOf(s, d.check, OK, "", "the user may do what %s need: %d commands tried", d.by, rights)
	}
}

// do sends a command.
func (s *server) do(ctx context.Context, args []any) error {
	if args[0] != "subscribe" {
		return s.client.(interface { // all clients have it
			Do(ctx context.Context, args ...any) *redis.Cmd
		}).Do(ctx, args...).Err()
	}
	sub := s.client.(interface { // this, too
		Subscribe(ctx context.Context, channels ...string) *redis.PubSub
	}).Subscribe(ctx, args[1].(string))
	defer sub.Close()
	_, err := sub.ReceiveTimeout(ctx, patience)
	return err
}

// refusal returns what to do about an answer that the server gives whatever it is asked, such as CLUSTERDOWN; "" for another error.
func refusal(err error) (remedy string) {
	var answer redis.Error
	if errors.As(err, &answer) && denied(err) == "" {
		return remedyOf(err)
	}
	return ""
}

// denied returns what a command was denied for: a command, keys (~) or channels (&); "" if it was not.
func denied(err error) string {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return ""
	}
	text := answer.Error()
	switch {
	case strings.Contains(text, "NOPERM") && strings.Contains(text, "channel"):
		return "&"
	case strings.Contains(text, "NOPERM") && strings.Contains(text, "key"):
		return "~"
	case strings.Contains(text, "NOPERM"), strings.Contains(text, "unknown command"):
		return "+"
	}
	return ""
}
