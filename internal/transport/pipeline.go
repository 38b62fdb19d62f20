package transport

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
)

// A group is the calls of one command: several by a batch script, or just one.
type group struct {
	calls    []*Call
	cmd      *redis.Cmd
	whole    bool // the command has the text of its script
	missed   int  // how often the server lacked the script
	examined bool // the server was examined because it refused the command
}

// script returns the script that the command of g runs.
func (g *group) script() *Script {
	if len(g.calls) > 1 {
		return g.calls[0].Batch.Script
	}
	return g.calls[0].script
}

// RunBatch runs calls in one pipeline per node. Calls that a batch script leaves, and calls to be repeated, go out in further
// pipelines.
func (s *Sender) RunBatch(ctx context.Context, batch []*Call) {
	for left := s.send(ctx, s.divide(batch)); len(left) > 0; left = s.send(ctx, left) {
		s.sendScripts(left)
	}
	for _, k := range batch {
		if k.AfterBatch != nil {
			k.AfterBatch()
		}
	}
}

// runAlone runs the only call of a batch, and repeats it as long as that helps.
func (s *Sender) runAlone(one []*Call) {
	for left := s.finish(group{calls: one, cmd: s.run(one[0])}); len(left) > 0; left = s.finish(left[0]) {
		if left[0].missed > 0 {
			left[0].sendWhole()
		}
		left[0].cmd = s.run(one[0])
	}
}

func singly(calls []*Call) []group {
	groups := make([]group, len(calls))
	for i := range calls {
		groups[i].calls = calls[i : i+1]
	}
	return groups
}

// send runs groups in one pipeline per node, and returns the calls that are still to be run. Groups that replicas must
// acknowledge go out after the rest, which need not wait for them.
func (s *Sender) send(ctx context.Context, groups []group) (left []group) {
	waits, groups := s.wantingReplicas(groups)
	sent := clock.Now()
	cmds := make([]*redis.Cmd, len(groups))
	for i := range groups {
		cmds[i] = groups[i].prepare(ctx, sent)
	}
	err := exec(ctx, s.rdb, cmds)
	for i := range groups {
		setMissing(groups[i].cmd, err)
		left = append(left, s.finish(groups[i])...)
	}
	return append(left, s.sendAndWait(ctx, waits)...)
}

// prepare returns the command for g, to be sent now.
func (g *group) prepare(ctx context.Context, now clock.Instant) *redis.Cmd {
	for _, k := range g.calls {
		k.markSent(now)
	}
	g.cmd = g.command(ctx)
	return g.cmd
}

// setMissing gives cmd the error of its pipeline if it has neither an answer nor an error of its own, because the server refused
// the connection.
func setMissing(cmd *redis.Cmd, err error) {
	if err != nil && cmd.Err() == nil && cmd.Val() == nil {
		cmd.SetErr(err)
	}
}

// finish delivers the answers to g, and returns the calls that are still to be run.
//
// Two answers show that a run did nothing and is to be repeated: the server lacks the script, whose text is sent then, or the
// script's Guard does not trust the server, which is examined first. Between the two the server may lose its scripts, as by
// SCRIPT FLUSH. So the repetition is itself repeated, and neither answer reaches a caller, who could do nothing about it.
func (s *Sender) finish(g group) (left []group) {
	err := g.cmd.Err()
	if didNothing(err) {
		for _, k := range g.calls {
			k.didNothing()
		}
	}
	switch {
	case isMissingScript(err) && !g.whole:
		g.missed++
		return []group{g}
	case isUntrusted(err) && !g.examined:
		g.examined = true
		args := g.cmd.Args()
		if err := g.script().Guard.Examine(s.ctx, g.calls[0].key(), args[len(args)-1]); err != nil {
			s.refuse(g.calls, err)
			return nil
		}
		return []group{g}
	}
	s.Note(err)
	switch {
	case len(g.calls) == 1:
		s.answer(g.calls[0], g.calls[0].reply(g.cmd.Val(), err))
		return nil
	case err != nil && !IsReply(err):
		s.refuse(g.calls, err)
		return nil
	}
	return s.finishBatch(g)
}

// finishBatch delivers the answers of a batch script, and returns the calls to be run on their own. These are all calls if the
// server has refused the run, perhaps because of one of them.
func (s *Sender) finishBatch(g group) (left []group) {
	answers, _ := g.cmd.Val().([]any)
	if len(answers) != len(g.calls) {
		return singly(g.calls)
	}
	var alone []*Call
	for i, k := range g.calls {
		if answers[i] == int64(NotPlain) {
			k.didNothing()
			alone = append(alone, k)
		} else {
			s.answer(k, k.reply(answers[i], nil))
		}
	}
	return singly(alone)
}

// refuse answers all calls with an error.
func (s *Sender) refuse(calls []*Call, err error) {
	for _, k := range calls {
		s.answer(k, k.reply(nil, err))
	}
}

// sendScripts makes the first group of each script that its server lacks send the text. The others follow in the same pipeline. A
// group that has met this twice sends the text itself.
func (s *Sender) sendScripts(groups []group) {
	type known struct {
		node   *redis.Client
		script *Script
	}
	sent := make(map[known]bool)
	for i := range groups {
		g := &groups[i]
		if g.missed == 0 || g.whole {
			continue
		}
		at := known{s.NodeFor(s.ctx, g.calls[0].key()), g.script()}
		if g.missed > 1 || !sent[at] {
			g.sendWhole()
		}
		sent[at] = true
	}
}

// sendWhole makes g send the text of its script.
func (g *group) sendWhole() {
	g.whole = true
	if len(g.calls) == 1 {
		g.calls[0].sendWhole()
	}
}
