package engine

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// A bulk is a script that does many plain runs of another one: runs without what only some need. It
// costs the server less than half of what they do, and both sides read and write less. What is not as
// plain as it looked it leaves to the other script. The lists are places in the arguments of EVALSHA.
type bulk struct {
	script *script
	plain  int // how many arguments a plain run has

	sharedKeys, keys []int // the same in all runs, and those of each
	sharedArgs, args []int
}

// fewest is how many plain runs are worth a bulk.
const fewest = 3

// elsewhere is what a bulk answers for a run that it leaves to the other script.
const elsewhere = -1

// A group is calls that go out as one command: several in bulk, or just one.
type group struct {
	calls []*call
	cmd   *redis.Cmd
}

// runBatch runs calls in one pipeline per node.
func (c *caller) runBatch(ctx context.Context, batch []*call) {
	if left := c.send(ctx, c.divide(batch)); len(left) > 0 {
		c.send(ctx, singly(left))
	}
	for _, k := range batch {
		if k.after != nil {
			k.after()
		}
	}
}

// divide groups what can be done in bulk.
func (c *caller) divide(batch []*call) []group {
	if len(batch) < fewest || !c.bulky.Load() {
		return singly(batch)
	}
	plain := make(map[*bulk][]*call, 2)
	var each []*call
	for _, k := range batch {
		if b := k.script.bulk; b != nil && len(k.args) == b.plain {
			plain[b] = append(plain[b], k)
		} else {
			each = append(each, k)
		}
	}
	var groups []group
	for _, calls := range plain {
		if len(calls) < fewest {
			each = append(each, calls...)
		} else {
			groups = append(groups, group{calls: calls})
		}
	}
	return append(groups, singly(each)...)
}

func singly(calls []*call) []group {
	groups := make([]group, len(calls))
	for i := range calls {
		groups[i].calls = calls[i : i+1]
	}
	return groups
}

// send runs groups in one pipeline per node, and returns the calls that are still to be run.
func (c *caller) send(ctx context.Context, groups []group) (left []*call) {
	sent := time.Now()
	pipe := c.rdb.Pipeline()
	for i := range groups {
		g := &groups[i]
		for _, k := range g.calls {
			k.sent = sent
		}
		g.cmd = g.command(ctx, false)
		_ = pipe.Process(ctx, g.cmd)
	}
	_, err := pipe.Exec(ctx)
	for i := range groups {
		g := &groups[i]
		// Each command has its own error, but not if the server refused the connection.
		if err != nil && g.cmd.Err() == nil && g.cmd.Val() == nil {
			g.cmd.SetErr(err)
		}
		if len(g.calls) == 1 {
			c.finish(g.calls[0], g.cmd)
		} else {
			left = append(left, c.finishBulk(ctx, g)...)
		}
	}
	return left
}

// command returns the one for g, with the script's text if it is to be sent whole.
func (g *group) command(ctx context.Context, whole bool) *redis.Cmd {
	if len(g.calls) == 1 {
		return g.calls[0].command(ctx)
	}
	b := g.calls[0].script.bulk
	keys := len(b.sharedKeys) + len(g.calls)*len(b.keys)
	args := make([]any, 0, 3+keys+len(b.sharedArgs)+len(g.calls)*len(b.args))
	if whole {
		args = append(args, "eval", b.script.source, keys)
	} else {
		args = append(args, "evalsha", b.script.asked, keys)
	}
	pick := func(from *call, places []int) {
		for _, i := range places {
			args = append(args, from.args[i])
		}
	}
	pick(g.calls[0], b.sharedKeys)
	for _, k := range g.calls {
		pick(k, b.keys)
	}
	pick(g.calls[0], b.sharedArgs)
	for _, k := range g.calls {
		pick(k, b.args)
	}
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// finishBulk hands the answers over, and returns the calls that are to be run each on its own.
func (c *caller) finishBulk(ctx context.Context, g *group) (left []*call) {
	if isMissingScript(g.cmd.Err()) {
		for _, k := range g.calls {
			k.didNothing()
		}
		g.cmd = g.command(ctx, true)
		_ = c.rdb.Process(ctx, g.cmd)
	}
	switch err := g.cmd.Err(); {
	case err == nil:
	case isReply(err): // the server may refuse one of them
		if redis.HasErrorPrefix(err, "CROSSSLOT") {
			c.bulky.Store(false)
		}
		return g.calls
	default:
		for _, k := range g.calls {
			k.done(&reply{sent: k.sent, err: err})
		}
		return nil
	}
	answers, _ := g.cmd.Val().([]any)
	if len(answers) != len(g.calls) {
		return g.calls
	}
	for i, k := range g.calls {
		if answers[i] == int64(elsewhere) {
			k.didNothing()
			left = append(left, k)
		} else {
			k.done(newReply(answers[i], nil, k.sent))
		}
	}
	return left
}
