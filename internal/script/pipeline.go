package script

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
)

// A group is calls that go out as one command: several by a batch script, or just one.
type group struct {
	calls  []*Call
	cmd    *redis.Cmd
	whole  bool // the command has the text of its script
	missed int  // how often the server did not know the script
}

// script returns the one that the command of g runs.
func (g *group) script() *Script {
	if len(g.calls) > 1 {
		return g.calls[0].batch().script
	}
	return g.calls[0].script
}

// RunBatch runs calls in one pipeline per node. What a batch script leaves, and what a server does not know, goes out in
// further ones.
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

func singly(calls []*Call) []group {
	groups := make([]group, len(calls))
	for i := range calls {
		groups[i].calls = calls[i : i+1]
	}
	return groups
}

// send runs groups in one pipeline per node, and returns what is still to be run. What replicas must have goes out behind the
// rest, which need not wait for them.
func (s *Sender) send(ctx context.Context, groups []group) (left []group) {
	waits, groups := s.wantingReplicas(groups)
	sent := clock.Now()
	pipe := s.rdb.Pipeline()
	for i := range groups {
		_ = pipe.Process(ctx, s.forPipeline(groups[i].prepare(ctx, sent)))
	}
	_, err := pipe.Exec(ctx)
	for i := range groups {
		setMissing(groups[i].cmd, err)
		left = append(left, s.finishGroup(&groups[i], nil)...)
	}
	return append(left, s.sendAndWait(ctx, waits)...)
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
	g.cmd = g.command(ctx)
	return g.cmd
}

// setMissing gives cmd the error of its pipeline if it has neither an answer nor an error of its own: the server refused
// the connection.
func setMissing(cmd *redis.Cmd, err error) {
	if err != nil && cmd.Err() == nil && cmd.Val() == nil {
		cmd.SetErr(err)
	}
}

// finishGroup hands the answers over, and returns what is still to be run. Few says why what was written does not count yet;
// nil: it does.
func (s *Sender) finishGroup(g *group, few error) (left []group) {
	for _, k := range g.calls {
		k.few = few
	}
	switch {
	case g.misses():
		return []group{{calls: g.calls, missed: g.missed}}
	case len(g.calls) > 1:
		return singly(s.finishBatch(g))
	}
	s.finish(g.calls[0], g.cmd)
	return nil
}
