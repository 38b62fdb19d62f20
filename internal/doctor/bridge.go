package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/bridge"
	"github.com/lockmw/go/internal/pause"
)

// An OldKey is a key of another lock library, from which bridges move to lockmw.
type OldKey struct{ Library, Key string }

// oldLibraries are the libraries of an OldKey.
var oldLibraries = []string{"redsync", "redislock", "rueidislock", "redisson", "setnx"}

// ParseOldKey parses library:name, where name is the name of a lock of that library; for setnx it is the Redis key.
func ParseOldKey(text string) (OldKey, error) {
	library, name, _ := strings.Cut(text, ":")
	if !slices.Contains(oldLibraries, library) || name == "" {
		return OldKey{}, fmt.Errorf("%q: must be library:name, with one of %s", text, strings.Join(oldLibraries, ", "))
	}
	if library == "rueidislock" {
		name = "rueidislock:0:" + name
	}
	return OldKey{library, name}, nil
}

// The old keys are read this often, for this long.
const (
	bridgePause   = 20 * time.Millisecond
	bridgeSamples = 150
)

// watchOldKey watches an old key, and reports whether code without a bridge takes it.
func (e *examination) watchOldKey(ctx context.Context, k OldKey) {
	var byBridge, alone int
	for range bridgeSamples {
		holder, err := k.holder(ctx, e.rdb)
		switch {
		case err != nil:
			e.note(Unknown, "", "%s key %q: %v", k.Library, k.Key, err)
			return
		case strings.HasPrefix(holder, bridge.ValuePrefix):
			byBridge++
		case holder != "":
			alone++
		}
		if !pause.For(ctx, bridgePause) {
			return
		}
	}
	saw := fmt.Sprintf("%s key %q, read %d times: %d times with a bridge's value, %d times with another one",
		k.Library, k.Key, bridgeSamples, byBridge, alone)
	switch {
	case alone > 0:
		e.note(Warning, "keep the bridges until no process with the old code is left", "%s", saw)
	case byBridge == 0:
		e.note(Unknown, "check its name, or watch it while somebody takes it", "%s", saw)
	default:
		e.note(OK, "", "%s", saw)
	}
}

// holder returns the value of the old key, or the field of a lock of Redisson; "" if the key does not exist.
func (k OldKey) holder(ctx context.Context, rdb redis.UniversalClient) (string, error) {
	if k.Library == "redisson" {
		fields, err := rdb.HKeys(ctx, k.Key).Result()
		return strings.Join(fields, " "), err
	}
	value, err := rdb.Get(ctx, k.Key).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return value, err
}
