package script

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
)

// Failure is a failed command as callers see it: it wraps core.ErrWrongType or core.ErrUnavailable. It
// returns nil for nil.
func Failure(err error) error {
	switch {
	case err == nil:
		return nil
	case isWrongType(err):
		return fmt.Errorf("%w: %w", core.ErrWrongType, err)
	case redis.HasErrorPrefix(err, "CROSSSLOT"), redis.HasErrorPrefix(err, "MOVED"):
		return fmt.Errorf("%w: the server is a node of a Redis Cluster, which needs a client of redis.NewClusterClient: %w", core.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", core.ErrUnavailable, err)
}

// IsReply reports whether err is the server's own answer, so that the outcome is known: a script
// makes its checks before its first write.
func IsReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// IsFinal reports whether the server will go on refusing.
func IsFinal(err error) bool {
	if isWrongType(err) {
		return true
	}
	for _, prefix := range []string{"NOPERM", "NOAUTH", "WRONGPASS"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// IsMoving reports whether a Cluster is moving the key's slot, which passes (rule 14 of
// docs/protocol.md).
func IsMoving(err error) bool { return redis.HasErrorPrefix(err, "TRYAGAIN") }

// isWrongType reports whether a key holds something that is not a lock; an embedded server says so in the
// middle of the message.
func isWrongType(err error) bool {
	return err != nil && IsReply(err) && strings.Contains(err.Error(), "WRONGTYPE")
}

func isMissingScript(err error) bool {
	return err != nil && strings.Contains(err.Error(), "NOSCRIPT")
}
