package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/transport"
)

// A try is a command that locks need, on a scratch key.
type try struct {
	right   string // as in ACL SETUSER, without the sign
	command []string
	only    string // the purpose that needs it; "": all locks
	cluster bool   // only in a Cluster
}

// purposes describes the purposes of tries that not all locks need.
var purposes = map[string]string{
	"inspector":  "for lockmw.Inspector and the command lockmw",
	"warnings":   "for warnings about eviction, for sharing commands and for WithQuarantine",
	"quarantine": "for WithQuarantine",
	"replicas":   "for WithReplicas",
	"tools":      "for asynq.Inspector and asynq's tools",
	"groups":     "for groups of tasks (asynq.Group)",
	"cancelling": "for asynq.Inspector.CancelProcessing (without them each asynq server logs an error every 5 s)",
}

// triesOf parses commands that are separated by semicolons. KEY and CHANNEL stand for scratch names. A purpose, or "cluster", may follow
// after a #.
func triesOf(text string) (all []try) {
	for one := range strings.SplitSeq(text, ";") {
		command, purpose, _ := strings.Cut(one, " #")
		words := strings.Fields(command)
		t := try{right: words[0], only: purposes[purpose], cluster: purpose == "cluster"}
		t.command = append(strings.Split(t.right, "|"), words[1:]...) // a subcommand
		all = append(all, t)
	}
	return all
}

// tries are in an order that works: each command finds the data that earlier ones have written.
var tries = triesOf(`
	ping; time; set KEY 1 px 10000; get KEY; exists KEY; pexpire KEY 10000; pttl KEY; eval return(1) 1 KEY;
	evalsha 930269f31393d0be681588b6ab08dccee7d6bb67 1 KEY; del KEY; hset KEY a 1 b 2; pexpire KEY 10000; hget KEY a;
	hmget KEY a b; hgetall KEY; hlen KEY; hscan KEY 0; hdel KEY a b; zadd KEY 1 a 2 b; pexpire KEY 10000; zcard KEY;
	zcount KEY -inf +inf; zscore KEY a; zrank KEY a; zrange KEY 0 -1; zrangebyscore KEY -inf +inf; zrem KEY a b;
	publish CHANNEL 1; spublish CHANNEL 1 #cluster; scan 0 match KEY count 1 #inspector; info server #warnings;
	config|get maxmemory-policy #quarantine; wait 0 1 #replicas`)

// A demand is a set of rights that some code needs.
type demand struct {
	check, by string                             // the name of the check, and the code that needs the rights
	names     func(tag string) *strings.Replacer // replaces KEY and CHANNEL
	patterns  map[string]string                  // the ACL patterns that allow them: keys under "~", channels under "&"
	tries     []try
}

// demands returns the sets of rights to try.
func (e *examination) demands() []demand {
	prefix := e.options.Prefix
	all := []demand{{
		check: "rights", by: "locks", tries: tries,
		names: func(tag string) *strings.Replacer {
			return strings.NewReplacer("KEY", prefix+":"+tag, "CHANNEL", prefix+":inbox:"+tag)
		},
		patterns: map[string]string{"~": "~" + prefix + ":*", "&": "&" + prefix + ":inbox:*"},
	}}
	if e.options.Asynq {
		all = append(all, asynqDemand)
	}
	return all
}

// checkRights tries the rights of all demands at each master, because each server has its own ACL.
func (e *examination) checkRights(ctx context.Context) {
	for _, d := range e.demands() {
		e.check = d.check
		for _, s := range e.masters() {
			tag, err := e.tagAt(ctx, s)
			if err != nil {
				e.noteOf(s, Unknown, Remedy(err), "%v", err)
				continue
			}
			e.checkRightsAt(ctx, s, d, tag)
		}
	}
	e.noteSame(e.masters())
}

// tagAt returns a hash tag whose keys belong to a server.
func (e *examination) tagAt(ctx context.Context, s *server) (string, error) {
	cluster := transport.ClusterOf(e.rdb)
	for {
		tag := transport.ScratchTag("doctor")
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
	optional := make(map[string][]string) // by purpose
	rights := 0
	for _, t := range d.tries {
		if t.cluster && !e.topology.Cluster {
			continue
		}
		rights++
		args := make([]any, len(t.command))
		for i, arg := range t.command {
			args[i] = names.Replace(arg)
		}
		err := s.do(ctx, args)
		if t.cluster && transport.IsUnknownCommand(err) {
			continue // before Redis 7.0 there are no sharded channels, and locks do without
		}
		if remedy := refusal(err); remedy != "" {
			e.noteOf(s, Unknown, remedy, "the user's rights are unknown, because the server refuses commands: %v", err)
			return
		}
		if err != nil && !transport.IsReply(err) {
			e.noteOf(s, Unknown, Remedy(err), "the user's rights are unknown, because %s was not answered: %v", t.right, err)
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
			e.noteOf(s, Failure, "ACL SETUSER … "+rule, "%v", err)
			return
		case !slices.Contains(missing, rule): // some commands are tried more than once
			missing = append(missing, rule)
		}
	}
	if len(missing) > 0 {
		rights := strings.Join(missing, " ")
		e.noteOf(s, Failure, "ACL SETUSER … "+rights, "the user lacks rights that %s need: %s", d.by, rights)
	}
	for _, t := range d.tries {
		if rights := strings.Join(optional[t.only], " "); rights != "" {
			e.noteOf(s, Advice, "ACL SETUSER … "+rights, "the user lacks rights %s: %s", t.only, rights)
			delete(optional, t.only)
		}
	}
	if len(missing) == 0 {
		e.noteOf(s, OK, "", "the user has the rights that %s need: %d commands tried", d.by, rights)
	}
}

// do sends a command.
func (s *server) do(ctx context.Context, args []any) error {
	if args[0] != "subscribe" {
		return s.client.(interface { // all clients have this method
			Do(ctx context.Context, args ...any) *redis.Cmd
		}).Do(ctx, args...).Err()
	}
	sub := s.client.(interface { // all clients have this method
		Subscribe(ctx context.Context, channels ...string) *redis.PubSub
	}).Subscribe(ctx, args[1].(string))
	defer sub.Close()
	_, err := sub.ReceiveTimeout(ctx, patience)
	return err
}

// refusal returns the remedy for an error that does not depend on the command, such as CLUSTERDOWN; "" for other errors.
func refusal(err error) (remedy string) {
	if transport.IsReply(err) && denied(err) == "" {
		return Remedy(err)
	}
	return ""
}

// denied returns the kind of right that was missing: "+" a command, "~" keys, "&" channels; "" if the command was not denied.
func denied(err error) string {
	if !transport.IsReply(err) {
		return ""
	}
	switch text := err.Error(); {
	case strings.Contains(text, "NOPERM") && strings.Contains(text, "channel"):
		return "&"
	case strings.Contains(text, "NOPERM") && strings.Contains(text, "key"):
		return "~"
	case strings.Contains(text, "NOPERM"), strings.Contains(text, "unknown command"):
		return "+"
	}
	return ""
}

// asynqCancel is the channel on which asynq.Inspector asks servers to cancel a task. Servers ignore an unknown task id.
const asynqCancel = "asynq:cancel"

// asynqDemand has the rights that asynq 0.26 and asynqmw need in the Redis of the queues.
var asynqDemand = demand{
	check: "asynq", by: "asynq and asynqmw",
	names: func(tag string) *strings.Replacer {
		return strings.NewReplacer("KEY", "asynq:"+tag, "CHANNEL", asynqCancel)
	},
	patterns: map[string]string{"~": "~asynq:*", "&": "&" + asynqCancel},
	tries: triesOf(`
		ping; time; set KEY 1 ex 10; setex KEY 10 1; incr KEY; decr KEY; get KEY; exists KEY; expireat KEY 9999999999;
		expire KEY 10; pexpire KEY 10000; eval return(1) 1 KEY; evalsha 930269f31393d0be681588b6ab08dccee7d6bb67 1 KEY;
		del KEY; hset KEY a 1 b 2; pexpire KEY 10000; hget KEY a; hmget KEY a b; hvals KEY #tools;
		memory|usage KEY #tools; hdel KEY a b; lpush KEY a; rpush KEY b; pexpire KEY 10000; rpoplpush KEY KEY;
		lrange KEY 0 -1 #tools; llen KEY; lrem KEY 0 a; del KEY; sadd KEY a b; pexpire KEY 10000;
		smembers KEY #groups; sismember KEY a #tools; srandmember KEY 1; srem KEY a b; zadd KEY 1 a 2 b;
		pexpire KEY 10000; zcard KEY; zscore KEY a; zrank KEY a; zrange KEY 0 -1; zrevrange KEY 0 -1 #groups;
		zrangebyscore KEY -inf +inf; zremrangebyscore KEY 3 4; zremrangebyrank KEY 3 4; zrem KEY a b;
		setnx KEY 1 #tools; pexpire KEY 10000; del KEY; info server #tools; subscribe CHANNEL #cancelling;
		publish CHANNEL lockmw-doctor #cancelling`),
}
