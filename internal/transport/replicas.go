package transport

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// Replicas sets how many replicas must acknowledge a write before it counts: before it moves a deadline or records a tick (rule
// 21 of docs/protocol.md).
type Replicas struct {
	Count   int           // 0: the master's answer is enough
	Timeout time.Duration // how long the master waits for them
}

// Check returns an error if the client may give up a connection before WAIT answers on it. The answer would then be lost.
func (r Replicas) Check(rdb redis.UniversalClient) error {
	if limit := readTimeout(rdb); r.Count > 0 && limit > 0 && r.Timeout > limit/2 {
		return fmt.Errorf("%w: a replica timeout of %v is more than half the client's ReadTimeout of %v",
			core.ErrInvalidOption, r.Timeout, limit)
	}
	return nil
}

// readTimeout returns how long rdb waits for an answer; 0: forever, or unknown.
func readTimeout(rdb redis.UniversalClient) time.Duration {
	switch c := unwrap(rdb).(type) {
	case interface{ Options() *redis.Options }:
		return c.Options().ReadTimeout
	case interface{ Options() *redis.ClusterOptions }:
		return c.Options().ReadTimeout
	}
	return 0
}

// RoundUp returns d in milliseconds, rounded up, as commands have it.
func RoundUp(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

// wantsReplicas reports whether replicas must acknowledge the writes of k.
func (s *Sender) wantsReplicas(k *Call) bool { return s.replicas.Count > 0 && k.script.NeedsReplicas }

// nodeOf returns the client of the server that has the key of k.
func (s *Sender) nodeOf(ctx context.Context, k *Call) (redis.UniversalClient, error) {
	if s.cluster != nil {
		return s.cluster.MasterForKey(ctx, k.key())
	}
	return s.rdb, nil
}

// wantingReplicas separates the groups that replicas must acknowledge from the others.
func (s *Sender) wantingReplicas(groups []group) (wanting, others []group) {
	if s.replicas.Count == 0 {
		return nil, groups
	}
	for _, g := range groups {
		if s.wantsReplicas(g.calls[0]) {
			wanting = append(wanting, g)
		} else {
			others = append(others, g)
		}
	}
	return wanting, others
}

// runAndWait runs k, and waits for the replicas of its server. It follows a slot that moves to the next node, once.
func (s *Sender) runAndWait(ctx context.Context, k *Call) *redis.Cmd {
	cmd := k.command(ctx)
	node, err := s.nodeOf(ctx, k)
	if err != nil {
		cmd.SetErr(err)
		return cmd
	}
	k.replicaErr, k.moved = s.execAndWait(ctx, node, cmd), false
	from, ok := node.(*redis.Client)
	if !ok {
		return cmd
	}
	if next, asking := s.redirected(ctx, from, cmd.Err()); next != nil {
		cmd = k.command(ctx)
		k.replicaErr = s.execAndWait(ctx, next, append(asking, cmd)...)
		if k.replicaErr != nil {
			k.moved = s.IsMaster(from)
		}
	}
	return cmd
}

// IsMaster asks a node of a Cluster whether it has slots. A deposed node reports none.
func (s *Sender) IsMaster(node *redis.Client) bool {
	ctx, cancel := context.WithTimeout(s.ctx, isMasterTimeout)
	defer cancel()
	slots, err := node.ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS needs Redis 7, and a right that go-redis does not need
	return err == nil && slices.ContainsFunc(slots, func(r redis.ClusterSlot) bool {
		return len(r.Nodes) > 0 && r.Nodes[0].Addr == node.Options().Addr
	})
}

// isMasterTimeout is how long a node may take to answer.
const isMasterTimeout = 500 * time.Millisecond

// execAndWait runs cmds in one pipeline, followed by WAIT on the same connection, because WAIT covers only writes of its own
// connection. It returns an error if the writes do not count yet.
func (s *Sender) execAndWait(ctx context.Context, node redis.UniversalClient, cmds ...*redis.Cmd) error {
	wait := redis.NewCmd(ctx, "wait", s.replicas.Count, RoundUp(s.replicas.Timeout))
	cmds = append(slices.Clip(cmds), wait)
	err := execOnce(ctx, node, cmds)
	for _, cmd := range cmds {
		setMissing(cmd, err)
	}
	have, err := wait.Int64()
	switch {
	case err != nil:
		return fmt.Errorf("replicas have not acknowledged it: %w", err)
	case have < int64(s.replicas.Count):
		return fmt.Errorf("%d of %d replicas have acknowledged it", have, s.replicas.Count)
	}
	return nil
}

// redirected returns the node that err names, which is the answer of another node of the Cluster, and the commands to be sent to
// it first. It returns nil if err names no node.
func (s *Sender) redirected(ctx context.Context, from *redis.Client, err error) (node *redis.Client, first []*redis.Cmd) {
	if s.cluster == nil || !hasPrefix(err, redirects) {
		return nil, nil
	}
	if redis.HasErrorPrefix(err, "ASK ") {
		first = append(first, redis.NewCmd(ctx, "asking"))
	} else {
		s.ReloadSlots()
	}
	address := namedNode(err)
	var mu sync.Mutex
	_ = s.cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
		if c.Options().Addr == address {
			mu.Lock()
			defer mu.Unlock()
			node = c
		}
		return nil
	})
	if node == nil {
		node = s.emptyNode(from, address)
	}
	return node, first
}

// namedNode returns the address in a redirect, as go-redis has it: servers write the address [fd00::1]:7000 without brackets.
func namedNode(redirect error) string {
	text := redirect.Error()
	text = text[strings.LastIndexByte(text, ' ')+1:]
	colon := max(0, strings.LastIndexByte(text, ':'))
	return net.JoinHostPort(strings.Trim(text[:colon], "[]"), strings.TrimPrefix(text[colon:], ":"))
}

// emptyNode returns the client of a node to which another one has redirected a call, although it has no slots: the first one moves
// there. A Cluster names only nodes with slots. It returns nil after Stop.
func (s *Sender) emptyNode(from *redis.Client, address string) *redis.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	node := s.emptyNodes[address]
	if node == nil && !s.stopped {
		o := *from.Options()
		o.Addr, o.NodeAddress, o.MinIdleConns = address, "", 0
		o.ReadTimeout, o.WriteTimeout = cmp.Or(o.ReadTimeout, -1), cmp.Or(o.WriteTimeout, -1) // 0 would mean the default
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		node = redis.NewClient(&o)
		s.emptyNodes[address] = node
	}
	return node
}

// sendAndWait runs groups in one pipeline per node, and waits for the replicas of each node.
func (s *Sender) sendAndWait(ctx context.Context, groups []group) (left []group) {
	if len(groups) == 0 {
		return nil
	}
	byNode := make(map[redis.UniversalClient][]*group)
	for i := range groups {
		g := &groups[i]
		node, err := s.nodeOf(ctx, g.calls[0])
		if err != nil {
			s.runAlone(g.calls) // which meets the error again; no batch scripts are used in a Cluster
			continue
		}
		byNode[node] = append(byNode[node], g)
	}
	for node, part := range byNode {
		cmds := make([]*redis.Cmd, len(part))
		now := clock.Now()
		for i, g := range part {
			cmds[i] = g.prepare(ctx, now)
		}
		replicaErr := s.execAndWait(ctx, node, cmds...)
		for _, g := range part {
			if hasPrefix(g.cmd.Err(), redirects) {
				s.runAlone(g.calls) // which follows the redirect
				continue
			}
			for _, k := range g.calls {
				k.replicaErr = replicaErr
			}
			left = append(left, s.finish(*g)...)
		}
	}
	return left
}

var redirects = []string{"MOVED ", "ASK "}
