package script

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// A batchScript does many plain runs of another script: runs without what only some need. It costs the
// server less than half of what they do, and both sides read and write less. A run that is not as plain
// as it looked is left to the other script. The lists are places in the arguments of a Call.
type batchScript struct {
	script   *Script
	plainLen int // how many arguments a plain run has; 0: the Call says that it is one

	sharedKeys, keys []int // the same in all runs, and those of each
	sharedArgs, args []int
}

// minBatch is how many plain runs are worth a batch script.
const minBatch = 3

// notPlain is what a batch script answers for a run that it leaves to the other script.
const notPlain = -1

// batch returns what does k together with others; nil: nothing does.
func (k *Call) batch() *batchScript {
	switch b := k.script.batch; {
	case k.votes:
		return k.script.votes
	case b != nil && len(k.args) == b.plainLen:
		return b
	}
	return nil
}

// divide groups what batch scripts can do.
func (s *Sender) divide(batch []*Call) []group {
	if len(batch) < minBatch || !s.batching.Load() {
		return singly(batch)
	}
	plain := make(map[*batchScript][]*Call, 2)
	var each []*Call
	for _, k := range batch {
		if b := k.batch(); b != nil {
			plain[b] = append(plain[b], k)
		} else {
			each = append(each, k)
		}
	}
	var groups []group
	for _, calls := range plain {
		if len(calls) < minBatch {
			each = append(each, calls...)
		} else {
			groups = append(groups, group{calls: calls})
		}
	}
	return append(groups, singly(each)...)
}

// command returns the one for g, with the script's text if it is to be sent whole.
func (g *group) command(ctx context.Context, whole bool) *redis.Cmd {
	if len(g.calls) == 1 {
		return g.calls[0].command(ctx)
	}
	b := g.calls[0].batch()
	keys := len(b.sharedKeys) + len(g.calls)*len(b.keys)
	args := make([]any, 0, firstKey+keys+len(b.sharedArgs)+len(g.calls)*len(b.args))
	if whole {
		args = append(args, "eval", b.script.Source, keys)
	} else {
		args = append(args, "evalsha", b.script.sha, keys)
	}
	pick := func(from *Call, places []int) {
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
	if q := b.script.grants; q != nil {
		args = append(args, q.trusted(g.calls[0].key()))
	}
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(firstKey)
	return cmd
}

// finishBatch hands the answers over, and returns the calls that are to be run each on its own.
func (s *Sender) finishBatch(ctx context.Context, g *group) (left []*Call) {
	if isMissingScript(g.cmd.Err()) {
		for _, k := range g.calls {
			k.didNothing()
		}
		s.processWhole(ctx, g)
	}
	s.Note(g.cmd.Err())
	switch err := g.cmd.Err(); {
	case err == nil:
	case IsReply(err): // the server may refuse one of them
		if didNothing(err) {
			for _, k := range g.calls {
				k.didNothing()
			}
		}
		return g.calls
	default:
		for _, k := range g.calls {
			s.answer(k, &Reply{Sent: k.sent, Err: err})
		}
		return nil
	}
	answers, _ := g.cmd.Val().([]any)
	if len(answers) != len(g.calls) {
		return g.calls
	}
	for i, k := range g.calls {
		if answers[i] == int64(notPlain) {
			k.didNothing()
			left = append(left, k)
		} else {
			s.answer(k, k.reply(answers[i], nil))
		}
	}
	return left
}

// processWhole runs g with the script's text, which the server does not know yet.
func (s *Sender) processWhole(ctx context.Context, g *group) {
	g.cmd = g.command(ctx, true)
	if !s.wantsReplicas(g.calls[0]) {
		_ = s.rdb.Process(ctx, g.cmd)
		return
	}
	few := s.execAndWait(ctx, s.rdb, g.cmd) // which is one server: it runs batch scripts
	for _, k := range g.calls {
		k.few = few
	}
}
