package redistest

import (
	"context"
	"slices"
	"strings"

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
