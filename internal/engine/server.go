package engine

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// greet looks, once and in the background, whether the server would throw locks away.
func (e *Engine) greet() {
	e.inbox.wg.Go(func() {
		ctx, cancel := context.WithTimeout(e.caller.ctx, 5*time.Second)
		defer cancel()
		policy, err := e.evictionPolicy(ctx)
		if err == nil && policy != "" && policy != "noeviction" {
			e.cfg.Logger.Warn("lockmw: the server evicts keys when its memory is full, and locks with them; set maxmemory-policy to noeviction",
				"maxmemory-policy", policy)
		}
	})
}

func (e *Engine) evictionPolicy(ctx context.Context) (string, error) {
	info, err := e.rdb.Info(ctx, "memory").Result()
	if err != nil {
		return "", err // not allowed, or not known to this server: nothing to warn of
	}
	for line := range strings.Lines(info) {
		if policy, ok := strings.CutPrefix(line, "maxmemory_policy:"); ok {
			return strings.TrimSpace(policy), nil
		}
	}
	return "", nil
}

// byNode divides calls so that no node of a Cluster holds up those to others.
func (e *Engine) byNode(calls []*call) [][]*call {
	cluster, ok := e.rdb.(*redis.ClusterClient)
	if !ok || len(calls) < 2 {
		return [][]*call{calls}
	}
	groups := make(map[*redis.Client][]*call)
	for _, k := range calls {
		key, _ := k.args[3].(string)
		node, err := cluster.MasterForKey(e.caller.ctx, key)
		if err != nil {
			node = nil // the cluster client will find out again, and say so
		}
		groups[node] = append(groups[node], k)
	}
	list := make([][]*call, 0, len(groups))
	for _, group := range groups {
		list = append(list, group)
	}
	return list
}
