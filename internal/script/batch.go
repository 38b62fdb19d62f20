package script

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// A batchScript does many plain runs of another script: runs without what only some need. It costs the
// server less than half of what they do, and both sides read and write less. A run that is not as plain
// as it looked is left to the other script. The lists are places in the arguments of a Call.
type batchScript struct {
	script   *Script
	plainLen int  // how many arguments a plain run has; 0: the Call says that it is one
	oneLock  bool // all runs are for the same lock

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
	case k.queues:
		return k.script.queues
	case b != nil && len(k.args) == b.plainLen:
		return b
	}
	return nil
}

// together says which calls a run of a batch script does.
type together struct {
	by   *batchScript
	lock string // of those for one lock
}

func (k *Call) together() together {
	t := together{by: k.batch()}
	if t.by != nil && t.by.oneLock {
		t.lock = k.key()
	}
	return t
}

// divide groups what batch scripts can do. The groups of one lock come first: who queues before its holder releases it is in
// the run that is granted then.
func (s *Sender) divide(batch []*Call) []group {
	if len(batch) < minBatch || !s.batching.Load() {
		return singly(batch)
	}
	plain := make(map[together][]*Call, 2)
	for _, k := range batch {
		if t := k.together(); t.by != nil {
			plain[t] = append(plain[t], k)
		}
	}
	var ofOne, ofMany []group
	for t, calls := range plain {
		switch {
		case len(calls) < minBatch || t.by.oneLock && !alike(calls, batch):
			delete(plain, t)
		case t.by.oneLock:
			ofOne = append(ofOne, group{calls: calls})
		default:
			ofMany = append(ofMany, group{calls: calls})
		}
	}
	groups := slices.Concat(ofOne, ofMany)
	for i, k := range batch {
		if plain[k.together()] == nil {
			groups = append(groups, group{calls: batch[i : i+1]})
		}
	}
	return groups
}

// alike reports whether calls want a ticket of the same kind for their lock, and nobody else in the batch wants that lock: those
// who want it keep their order.
func alike(calls, batch []*Call) bool {
	first, n := calls[0], 0
	for _, k := range batch {
		if k.script == first.script && k.key() == first.key() {
			n++
		}
	}
	return n == len(calls) && !slices.ContainsFunc(calls, func(k *Call) bool {
		return slices.ContainsFunc(first.batch().sharedArgs, func(i int) bool { return !sameArg(k.args[i], first.args[i]) })
	})
}

// command returns the one for g.
func (g *group) command(ctx context.Context) *redis.Cmd {
	if len(g.calls) == 1 {
		if g.whole {
			g.calls[0].sendWhole()
		}
		return g.calls[0].command(ctx)
	}
	b := g.calls[0].batch()
	keys := len(b.sharedKeys) + len(g.calls)*len(b.keys)
	args := make([]any, 0, firstKey+keys+len(b.sharedArgs)+len(g.calls)*len(b.args))
	if g.whole {
		args = append(args, "eval", b.script.Source, keys)
	} else {
		args = append(args, "evalsha", b.script.sha, keys)
	}
	pick := func(from *Call, places []int) {
		for _, i := range places {
			if i < len(from.args) {
				args = append(args, from.args[i])
			} else {
				args = append(args, "") // it has no trace
			}
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
func (s *Sender) finishBatch(g *group) (left []*Call) {
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
