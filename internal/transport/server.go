package transport

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/option"
)

// A Topology is the kind of servers that a client talks to.
type Topology struct {
	Cluster bool
	Single  bool // one plain server, not found by Sentinel
	Sharded bool // several servers behind a proxy, which shows none of them (WithSlottedKeys)
}

// HasSlots reports whether the keys of one script must be in one slot.
func (t Topology) HasSlots() bool { return t.Cluster || t.Sharded }

// IsReplaceable reports whether another server, at another address, may take the place of the only one, as Sentinels arrange it.
func (t Topology) IsReplaceable() bool { return !t.Single && !t.HasSlots() }

// A Cluster is the methods that a client of a Cluster has in addition to commands. Types that wrap a *redis.ClusterClient have
// them.
type Cluster interface {
	ForEachMaster(ctx context.Context, f func(context.Context, *redis.Client) error) error
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
}

// ClusterOf returns the client of a Cluster that rdb is or wraps, or nil if none is visible.
func ClusterOf(rdb redis.UniversalClient) Cluster {
	c, _ := unwrap(rdb).(Cluster)
	return c
}

// unwrap returns the client inside wrappers that have an Unwrap method.
func unwrap(rdb redis.UniversalClient) redis.UniversalClient {
	for {
		w, ok := rdb.(interface{ Unwrap() redis.UniversalClient })
		if !ok {
			return rdb
		}
		inner := w.Unwrap()
		if option.IsNil(inner) {
			return rdb
		}
		rdb = inner
	}
}

// TopologyOf returns the topology behind rdb, or an error if locks cannot be kept there. slotted says that the servers behind a
// client that is not for a Cluster need keys in slots. TopologyOf sends nothing, unless the type of rdb does not show what it wraps.
func TopologyOf(rdb redis.UniversalClient, prefix string, slotted bool) (Topology, error) {
	t, err := visibleTopology(rdb, prefix)
	if err == nil && slotted && !t.Cluster {
		return Topology{Sharded: true}, nil
	}
	return t, err
}

// Check refuses settings that rely on knowing the server of a key, which a proxy does not show.
func (t Topology) Check(quarantine time.Duration, replicas Replicas) error {
	switch {
	case t.Sharded && quarantine > 0:
		return fmt.Errorf("%w: WithQuarantine cannot tell behind a proxy whether the server of a key has lost locks: omit it, or WithSlottedKeys",
			core.ErrInvalidOption)
	case t.Sharded && replicas.Count > 0:
		return fmt.Errorf("%w: WithReplicas sends WAIT, which names no key, so a proxy may ask another server than the lock's: omit it, or WithSlottedKeys",
			core.ErrInvalidOption)
	}
	return nil
}

// visibleTopology returns the topology that the type of rdb shows, or the answers of its servers.
func visibleTopology(rdb redis.UniversalClient, prefix string) (Topology, error) {
	switch {
	case option.IsNil(rdb):
		return Topology{}, fmt.Errorf("%w: the redis client is nil", core.ErrInvalidOption)
	case !reflect.ValueOf(rdb).Comparable():
		return Topology{}, fmt.Errorf("%w: a redis client of type %T cannot be compared: use a pointer to it", core.ErrInvalidOption, rdb)
	}
	switch c := unwrap(rdb).(type) {
	case Cluster:
		return Topology{Cluster: true}, nil
	case interface{ Options() *redis.RingOptions }:
		return Topology{}, errRing
	case interface{ Options() *redis.Options }:
		return Topology{Single: c.Options().Addr != "FailoverClient"}, nil
	}
	return askTopology(rdb, prefix)
}

var errRing = fmt.Errorf("%w: a Ring moves keys to other servers when one is down, so two callers could hold a lock; use a Cluster", core.ErrInvalidOption)

// askTimeout is how long New waits for the servers behind a client of an unknown type.
const askTimeout = 2 * time.Second

// askTopology asks the servers for their topology.
func askTopology(rdb redis.UniversalClient, prefix string) (Topology, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	info, err := rdb.Info(ctx, "cluster").Result()
	switch {
	case err == nil && strings.Contains(info, "cluster_enabled:1"):
		return Topology{Cluster: true}, nil
	case err == nil && strings.Contains(info, "cluster_enabled:0"):
		var one bool
		if one, err = runsOnOne(ctx, rdb, prefix); one {
			return Topology{}, nil
		}
		if err == nil {
			err = errors.New("its keys are on several servers that are not a Cluster")
		}
	case err == nil:
		err = errors.New("INFO does not say whether they are a Cluster")
	}
	return Topology{}, fmt.Errorf("%w: a redis client of type %T does not show what kind of servers it talks to; "+
		"use the client that it wraps, or give it the method Unwrap() redis.UniversalClient: %w", core.ErrInvalidOption, rdb, err)
}

// ReadInfo returns the fields of INFO for the given sections, or for the usual ones. The most common error is that the user may not
// run INFO.
func ReadInfo(ctx context.Context, rdb redis.Cmdable, sections ...string) (map[string]string, error) {
	text, err := rdb.Info(ctx, sections...).Result()
	if err != nil {
		return nil, err
	}
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// Software returns the server's name and version from the fields of INFO.
func Software(info map[string]string) (name, version string) {
	for _, other := range []string{"dragonfly", "garnet", "kvrocks", "valkey"} {
		if v := info[other+"_version"]; v != "" {
			return other, v
		}
	}
	return "redis", info["redis_version"]
}

// HasOtherMasters reports whether other servers accept writes of the same keys, by the fields of INFO of KeyDB. Such servers exchange
// their writes later, so two of them can grant one lock.
func HasOtherMasters(info map[string]string) bool { return info["role"] == "active-replica" }

// ReplicationID returns the replication id of a server from the fields of INFO. The error is a *FinalError: the id does not show
// whether the server has lost locks.
func ReplicationID(info map[string]string) (string, error) {
	const unknown = "cannot tell whether the server has lost locks"
	id := info["master_replid"]
	if name, _ := Software(info); name == "dragonfly" {
		return "", &FinalError{Err: fmt.Errorf("%w: WithQuarantine: %s: Dragonfly keeps its replication id when another server takes its place", core.ErrInvalidOption, unknown)}
	}
	if !IsID(id) {
		return "", &FinalError{Err: errors.New(unknown + ": INFO shows no replication id")}
	}
	return id, nil
}

// IsID reports whether a field of INFO distinguishes a server or its data from others. Some servers show only zeros.
func IsID(id string) bool { return len(id) == 40 && strings.Trim(id, "0") != "" }

// IsPlain reports whether a server is Redis or Valkey, by the fields of INFO.
func IsPlain(info map[string]string) bool {
	name, version := Software(info)
	return version != "" && (name == "redis" || name == "valkey")
}

// IsOneServer reports whether all scripts run on the same server, whatever their keys are. A proxy may spread them over several
// servers by their first keys; then scripts must not mix keys of different locks. Without a run_id in INFO it reports false.
func IsOneServer(ctx context.Context, rdb redis.UniversalClient, prefix string) bool {
	if _, ok := rdb.(*redis.Client); !ok {
		return false
	}
	one, _ := runsOnOne(ctx, rdb, prefix)
	return one
}

// RunID is a script that returns the run id of its server.
const RunID = "return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')"

// runsOnOne reports whether scripts with different keys run on the same server. It returns an error if that cannot be determined,
// because INFO is not allowed or not supported.
func runsOnOne(ctx context.Context, rdb redis.UniversalClient, prefix string) (bool, error) {
	answers := make([]*redis.Cmd, 32) // the chance that two servers look like one is 1 in 2^31
	for i := range answers {
		answers[i] = redis.NewCmd(ctx, "eval", RunID, 1, prefix+":probe:"+strconv.Itoa(i))
		answers[i].SetFirstKeyPos(FirstKey)
	}
	if err := exec(ctx, rdb, answers); err != nil {
		return false, err
	}
	for _, a := range answers {
		if id, ok := a.Val().(string); !ok || !IsID(id) || id != answers[0].Val() {
			return false, nil
		}
	}
	return true, nil
}
