package script

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// A group is calls that go out as one command: several by a batch script, or just one.
type group struct {
	calls []*Call
	cmd   *redis.Cmd
}

// RunBatch runs calls in one pipeline per node.
func (s *Sender) RunBatch(ctx context.Context, batch []*Call) {
	if left := s.send(ctx, s.divide(batch)); len(left) > 0 {
		s.send(ctx, singly(left))
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

// send runs groups in one pipeline per node, and returns the calls that are still to be run.
func (s *Sender) send(ctx context.Context, groups []group) (left []*Call) {
	sent := time.Now()
	pipe := s.rdb.Pipeline()
	for i := range groups {
		g := &groups[i]
		for _, k := range g.calls {
			k.markSent(sent)
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
			s.finish(g.calls[0], g.cmd)
		} else {
			left = append(left, s.finishBatch(ctx, g)...)
		}
	}
	return left
}
