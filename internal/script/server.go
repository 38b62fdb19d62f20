package script

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/option"
)

// A Topology is what kind of servers a client talks to.
type Topology struct {
	Cluster bool
	Single  bool // one plain server, not found by Sentinel
}

// TopologyOf returns the topology behind rdb, or why no locks can be kept there. It sends nothing.
func TopologyOf(rdb redis.UniversalClient) (Topology, error) {
	if option.IsNil(rdb) {
		return Topology{}, fmt.Errorf("%w: the redis client is nil", core.ErrInvalidOption)
	}
	switch c := rdb.(type) {
	case *redis.ClusterClient:
		return Topology{Cluster: true}, nil
	case *redis.Ring:
		return Topology{}, fmt.Errorf("%w: a Ring moves keys to other servers when one is down, so that two could hold a lock; use a Cluster", core.ErrInvalidOption)
	case *redis.Client:
		return Topology{Single: c.Options().Addr != "FailoverClient"}, nil
	}
	return Topology{}, nil
}

// EvictionPolicy returns the server's maxmemory-policy; "" if the server does not say.
func EvictionPolicy(ctx context.Context, rdb redis.UniversalClient) (string, error) {
	info, err := rdb.Info(ctx, "memory").Result()
	if err != nil {
		return "", err // not allowed, or not known to this server
	}
	for line := range strings.Lines(info) {
		if policy, ok := strings.CutPrefix(line, "maxmemory_policy:"); ok {
			return strings.TrimSpace(policy), nil
		}
	}
	return "", nil
}

// IsOneServer reports whether scripts run on one and the same server, whatever their keys are. A proxy
// may spread them over several by their first keys; keys of different locks must not be mixed then.
func IsOneServer(ctx context.Context, rdb redis.UniversalClient, prefix string) bool {
	if _, ok := rdb.(*redis.Client); !ok {
		return false
	}
	const who = "return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')"
	pipe := rdb.Pipeline()
	var answers [32]*redis.Cmd // two servers are taken for one once in 2^31 times
	for i := range answers {
		answers[i] = pipe.Eval(ctx, who, []string{prefix + ":probe:" + strconv.Itoa(i)})
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return false // not allowed, or not known to this server
	}
	for _, a := range answers {
		if id, ok := a.Val().(string); !ok || id == "" || id != answers[0].Val() {
			return false
		}
	}
	return true
}
