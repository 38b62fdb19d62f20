package redistest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// SetUser creates or changes a user by ACL SETUSER. Before Redis 6.2 all users may use all channels: there SetUser leaves the
// rules for channels out.
func SetUser(ctx context.Context, admin redis.UniversalClient, user string, rules ...string) error {
	err := setUser(ctx, admin, user, rules)
	if err == nil || !slices.ContainsFunc(rules, func(rule string) bool { return ofChannels(rule) && strings.Contains(err.Error(), "'"+rule+"'") }) {
		return err
	}
	return setUser(ctx, admin, user, slices.DeleteFunc(slices.Clone(rules), ofChannels))
}

func ofChannels(rule string) bool { return strings.HasPrefix(rule, "&") || rule == "resetchannels" }

func setUser(ctx context.Context, admin redis.UniversalClient, user string, rules []string) error {
	args := []any{"ACL", "SETUSER", user}
	for _, rule := range rules {
		args = append(args, rule)
	}
	return admin.Do(ctx, args...).Err()
}

// NeedsByScore skips a test on Redis before 6.2, which lacks ZRANGE with BYSCORE. asynq needs it to archive a task.
func NeedsByScore(t testing.TB, rdb redis.UniversalClient) {
	t.Helper()
	err := rdb.ZRangeArgs(t.Context(), redis.ZRangeArgs{Key: "none", Start: "-inf", Stop: "+inf", ByScore: true}).Err()
	if err != nil && strings.HasPrefix(err.Error(), "ERR ") {
		t.Skip("asynq needs ZRANGE with BYSCORE")
	}
}
