package parked

import (
	"context"
	_ "embed" // the script
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed look.lua
var lookLua string

var lookScript = redis.NewScript(lookLua)

// TurnTTL is how long a server keeps the turn without another call of Look.
const TurnTTL = 1500 * time.Millisecond

// TurnOf returns the key of the id of the server that has the turn to check the lists of a queue.
func TurnOf(queue string) string { return InQueue(queue, "lockmw:looker") }

// Look returns the locks that have a list in a queue: all, or some at random if there are many. It reports whether the server
// with this id has the turn to check them. The turn lasts for TurnTTL unless the server calls Look again.
func (s Store) Look(ctx context.Context, queue, id string) (locks []string, turn bool, err error) {
	return s.look(ctx, queue, id, TurnTTL)
}

// EndTurn gives up the turn of a server, so that another one gets it.
func (s Store) EndTurn(ctx context.Context, queue, id string) error {
	_, _, err := s.look(ctx, queue, id, 0)
	return err
}

func (s Store) look(ctx context.Context, queue, id string, lasts time.Duration) (locks []string, turn bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := lookScript.Run(ctx, s.Redis, []string{TurnOf(queue), LocksOf(queue)}, id, lasts.Milliseconds(), MostLists).Slice()
	if err != nil {
		return nil, false, err
	}
	if len(got) == 0 {
		return nil, false, fmt.Errorf("asynqmw: unexpected answer %v of look.lua", got)
	}
	for _, lock := range got[1:] {
		locks = append(locks, fmt.Sprint(lock))
	}
	return locks, fmt.Sprint(got[0]) == "1", nil
}

// Free returns which of the locks, given by their Redis keys, are free. On a single server it asks about all locks together, and
// splits the group in halves only where some are free. A Cluster, or a client of an unknown type, is asked for each lock. With an
// error Free returns the free locks among those that it could ask about.
func Free(ctx context.Context, rdb redis.UniversalClient, locks []string) (free []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	size := 1
	if _, ok := rdb.(*redis.Client); ok {
		size = max(1, len(locks))
	}
	groups := slices.Collect(slices.Chunk(locks, size))
	for len(groups) > 0 {
		pipe := rdb.Pipeline()
		held := make([]*redis.Cmd, len(groups))
		for i, group := range groups {
			args := []any{"exists"}
			for _, lock := range group {
				args = append(args, lock)
			}
			held[i] = pipe.Do(ctx, args...)
		}
		if _, failed := pipe.Exec(ctx); failed != nil {
			err = failed
		}
		var next [][]string
		for i, group := range groups {
			// Only a command with an answer has a value. Its error may be that of another node: go-redis sets it for all commands when
			// the context ends.
			n, answered := held[i].Val().(int64)
			switch {
			case !answered:
			case n == 0:
				free = append(free, group...)
			case int(n) < len(group):
				half := len(group) / 2
				next = append(next, group[:half], group[half:])
			}
		}
		groups = next
	}
	return free, err
}
