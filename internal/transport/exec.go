package transport

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// exec runs commands together, on few connections: with many processes, connections are the first limit of a deployment. It sends
// one command alone, and several in a pipeline, which go-redis repeats if the connection fails. It returns the error of the
// pipeline; each command has an error of its own.
func exec(ctx context.Context, rdb redis.UniversalClient, cmds []*redis.Cmd) error {
	switch len(cmds) {
	case 0:
		return nil
	case 1:
		return rdb.Process(ctx, cmds[0])
	}
	if !sharesPool(rdb) {
		return pipeline(ctx, rdb, cmds)
	}
	err := execOnce(ctx, rdb, cmds)
	if err == nil {
		return nil
	}
	lost := slices.DeleteFunc(slices.Clone(cmds), func(cmd *redis.Cmd) bool { return !isLost(ctx, cmd.Err()) })
	if len(lost) == 0 {
		return err
	}
	return pipeline(ctx, rdb, lost)
}

// isLost reports whether a command with this error may reach the server on another connection.
func isLost(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && !IsReply(err) && !isClosed(err) && !IsPoolTimeout(err)
}

// sharesPool reports whether pipelines of a client may use the connections of its single commands. go-redis has a second pool for
// pipelines, whose connections have buffers of four times the size. But the user may have chosen the size of that pool, and a
// connection that is taken out of the first pool loses what go-redis caches for it.
func sharesPool(rdb redis.UniversalClient) bool {
	c, ok := rdb.(*redis.Client)
	if !ok {
		return false
	}
	o := c.Options()
	return o.PipelinePoolSize == 0 && o.ClientSideCache == nil && o.ClientSideCacheConfig == nil
}

// execOnce runs commands in a pipeline that is not repeated, on one connection to a server.
func execOnce(ctx context.Context, rdb redis.UniversalClient, cmds []*redis.Cmd) error {
	run := func(pipe redis.Pipeliner) error {
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, noRetryCmd{cmd})
		}
		_, err := pipe.Exec(ctx)
		return err
	}
	if !sharesPool(rdb) {
		return run(rdb.Pipeline())
	}
	// Without keys, Watch sends nothing: it lends a connection of the first pool.
	return rdb.Watch(ctx, func(tx *redis.Tx) error { return run(tx.Pipeline()) })
}

// pipeline runs commands in a pipeline of the client, and on a Cluster in one pipeline for each node.
func pipeline(ctx context.Context, rdb redis.UniversalClient, cmds []*redis.Cmd) error {
	cluster := ClusterOf(rdb) != nil
	pipe := rdb.Pipeline()
	for _, cmd := range cmds {
		if cluster {
			// When the client of a Cluster follows the redirect of one command, and repeats the whole pipeline because of
			// another, it sends the first to two nodes together and both answers into the same place (go-redis 9.23). So it must
			// not repeat the pipeline: the sender repeats each of its calls by itself.
			_ = pipe.Process(ctx, noRetryCmd{cmd})
		} else {
			_ = pipe.Process(ctx, cmd)
		}
	}
	_, err := pipe.Exec(ctx)
	return err
}
