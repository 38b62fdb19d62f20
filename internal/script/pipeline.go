package script

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
)

// A group is calls that go out as one command: several by a batch script, or just one.
type group struct {
	calls []*Call
	cmd   *redis.Cmd
}

// RunBatch runs calls in one pipeline per node. What a batch script leaves, and what a server does not know, goes out in a
// second one.
func (s *Sender) RunBatch(ctx context.Context, batch []*Call) {
	if left := s.send(ctx, s.divide(batch), false); len(left) > 0 {
		s.sendEachScript(left)
		s.send(ctx, singly(left), true)
	}
	for _, k := range batch {
		if k.AfterBatch != nil {
			k.AfterBatch()
		}
	}
}

// sendEachScript has the first call to each node with a script that was not known send it whole. The others come behind it.
func (s *Sender) sendEachScript(calls []*Call) {
	for _, group := range s.ByNode(calls) {
		sent := make(map[*Script]bool)
		for _, k := range group {
			if k.unknown && !sent[k.script] {
				sent[k.script] = true
				k.sendWhole()
			}
		}
	}
}

func singly(calls []*Call) []group {
	groups := make([]group, len(calls))
	for i := range calls {
		groups[i].calls = calls[i : i+1]
	}
	return groups
}

// send runs groups in one pipeline per node, and returns the calls that are still to be run; none the last time. What
// replicas must have goes out behind the rest, which need not wait for them.
func (s *Sender) send(ctx context.Context, groups []group, last bool) (left []*Call) {
	waits, groups := s.wantingReplicas(groups)
	sent := clock.Now()
	pipe := s.rdb.Pipeline()
	for i := range groups {
		_ = pipe.Process(ctx, s.forPipeline(groups[i].prepare(ctx, sent)))
	}
	_, err := pipe.Exec(ctx)
	for i := range groups {
		setMissing(groups[i].cmd, err)
		left = append(left, s.finishGroup(ctx, &groups[i], nil, last)...)
	}
	return append(left, s.sendAndWait(ctx, waits, last)...)
}

// forPipeline returns cmd as it goes into a pipeline. A Cluster's client that follows the redirect of one command, and
// repeats the whole pipeline because of another one, sends the first to two nodes at once, and both answers into the same
// place (go-redis 9.23). So it is not to repeat it there: who has sent the calls does, each by itself.
func (s *Sender) forPipeline(cmd *redis.Cmd) redis.Cmder {
	if s.cluster != nil {
		return once{cmd}
	}
	return cmd
}

// prepare returns the command for g, which is sent now.
func (g *group) prepare(ctx context.Context, now clock.Instant) *redis.Cmd {
	for _, k := range g.calls {
		k.markSent(now)
	}
	g.cmd = g.command(ctx, false)
	return g.cmd
}

// setMissing gives cmd the error of its pipeline if it has neither an answer nor an error of its own: the server refused
// the connection.
func setMissing(cmd *redis.Cmd, err error) {
	if err != nil && cmd.Err() == nil && cmd.Val() == nil {
		cmd.SetErr(err)
	}
}

// finishGroup hands the answers over, and returns the calls that are still to be run. Few says why what was written does
// not count yet; nil: it does.
func (s *Sender) finishGroup(ctx context.Context, g *group, few error, last bool) (left []*Call) {
	for _, k := range g.calls {
		k.few = few
	}
	if len(g.calls) > 1 {
		return s.finishBatch(ctx, g)
	}
	k := g.calls[0]
	if !last && isMissingScript(g.cmd.Err()) {
		k.didNothing()
		k.unknown = true
		return g.calls
	}
	s.finish(k, g.cmd)
	return nil
}
