package engine

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// greet looks, once and in the background, what kind of server this is.
func (e *Engine) greet() {
	e.inbox.wg.Go(func() {
		ctx, cancel := context.WithTimeout(e.caller.ctx, 5*time.Second)
		defer cancel()
		policy, err := e.evictionPolicy(ctx)
		if err == nil && policy != "" && policy != "noeviction" {
			e.cfg.Logger.Warn("lockmw: the server evicts keys when its memory is full, and locks with them; set maxmemory-policy to noeviction",
				"maxmemory-policy", policy)
		}
		e.caller.bulky.Store(e.isOneServer(ctx))
	})
}

// isOneServer reports whether scripts run on one and the same server, whatever their keys are. A proxy
// may spread them over several by their first keys; keys of different locks must not be mixed then.
func (e *Engine) isOneServer(ctx context.Context) bool {
	if _, ok := e.rdb.(*redis.Client); !ok {
		return false
	}
	const who = "return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')"
	pipe := e.rdb.Pipeline()
	var answers [32]*redis.Cmd // two servers are taken for one once in 2^31 times
	for i := range answers {
		answers[i] = pipe.Eval(ctx, who, []string{e.cfg.Prefix + ":probe:" + strconv.Itoa(i)})
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
