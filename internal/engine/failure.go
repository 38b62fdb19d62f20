package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
)

// failure is a failed command as callers are told of it.
func failure(err error) error {
	switch {
	case err == nil:
		return nil
	case isWrongType(err):
		return fmt.Errorf("%w: %w", core.ErrWrongType, err)
	}
	return fmt.Errorf("%w: %w", core.ErrUnavailable, err)
}

// isReply reports whether err is the server's own answer, so that the outcome is known: a script
// makes its checks before its first write.
func isReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// isWrongType reports whether a key holds something that is not a lock; an embedded server says so in the
// middle of the message.
func isWrongType(err error) bool {
	return err != nil && isReply(err) && strings.Contains(err.Error(), "WRONGTYPE")
}

// isMoving reports whether a Cluster is moving the key's slot, which passes.
func isMoving(err error) bool { return redis.HasErrorPrefix(err, "TRYAGAIN") }

func isMissingScript(err error) bool {
	return err != nil && strings.Contains(err.Error(), "NOSCRIPT")
}
