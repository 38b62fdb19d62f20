package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
)

// Failure is a failed command as callers see it: it wraps core.ErrWrongType, or core.ErrUnavailable with its fault. It returns
// nil for nil.
func Failure(err error) error {
	switch {
	case err == nil:
		return nil
	case isWrongType(err):
		return fmt.Errorf("%w: %w", core.ErrWrongType, err)
	case redis.HasErrorPrefix(err, "CROSSSLOT"):
		err = fmt.Errorf("the server is a node of a Redis Cluster, which needs a client of redis.NewClusterClient: %w", err)
	case redis.HasErrorPrefix(err, "MOVED"):
		err = fmt.Errorf("the key is at another node of the Redis Cluster, which a client of redis.NewClusterClient finds: %w", err)
	case isUnauthenticated(err):
		err = fmt.Errorf("the server wants a password: %w", err)
	case IsPoolTimeout(err):
		err = fmt.Errorf("the client's pool of connections is exhausted: %w", err)
	}
	switch {
	case IsFinal(err):
		err = core.WithFault(err, core.Lasting)
	case IsPoolTimeout(err):
		err = core.WithFault(err, core.Exhausted)
	}
	return fmt.Errorf("%w: %w", core.ErrUnavailable, err)
}

// IsReply reports whether err is the server's own answer. That is not to say that nothing has happened: see didNothing.
func IsReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// didNothing reports whether a run that was answered so has certainly written nothing. Other errors may come from the
// middle of it: a script is cut off in a slot that moves, for example. The ones here come before its first write: a script
// makes its checks before that, and a server that refuses all writes refuses the first one. Answers that a new connection
// may have got are not among them: an earlier copy may have been lost with the connection before.
func didNothing(err error) bool {
	if err == nil {
		return false
	}
	if redis.HasErrorPrefix(err, "NOPERM") {
		return !strings.Contains(err.Error(), "script: ") // else of a command in it
	}
	return isMissingScript(err) || isWrongType(err) || isUnauthenticated(err) || hasPrefix(err, writesNothing)
}

var writesNothing = append([]string{
	"CLUSTERDOWN", "LOADING ", "MASTERDOWN ", "READONLY ", "NOREPLICAS ", "MISCONF ", "OOM ",
	"CROSSSLOT", "NOAUTH", "WRONGPASS",
}, moving...)

// How errors are judged, for every operation (rule 14 of docs/protocol.md):
//
//	IsPassing  a call that has time waits: acquires, polls, renewals, extensions and releases
//	IsMended   somebody has to make room for the server. A new call ends, and one that is queued keeps its place and waits
//	IsFinal    nothing is tried again, not even in the background: somebody has to change the configuration
//	others     a call ends, also one that is queued. A cancel, and the begin or mark of a tick, is tried again

// IsFinal reports whether the server will go on refusing, or never be reached.
func IsFinal(err error) bool {
	switch {
	case err == nil:
		return false
	case IsReply(err):
		return isWrongType(err) || isUnauthenticated(err) || hasPrefix(err, final)
	}
	_, ok := errors.AsType[*FinalError](err)
	return ok || isClosed(err) || isTLSMistake(err)
}

// A FinalError says that a Guard will never trust a server.
type FinalError struct{ Err error }

// Error returns the text of the error.
func (e *FinalError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *FinalError) Unwrap() error { return e.Err }

// IsMended reports whether the server refuses to write because its memory or its disk is full.
func IsMended(err error) bool { return hasPrefix(err, []string{"OOM ", "MISCONF "}) }

var final = []string{
	"NOPERM", "NOAUTH", "WRONGPASS", "DENIED ", "CROSSSLOT", "unknown command", "AUTH ", "DB index is out of range", "invalid DB index",
	"SELECT is not allowed in cluster mode", "This instance has cluster support disabled",
}

// isClosed reports whether this process has closed what it would send by.
func isClosed(err error) bool {
	return errors.Is(err, redis.ErrClosed) || errors.Is(err, core.ErrClosed)
}

// isTLSMistake reports whether one side refuses the other's certificate or version of TLS, or does not speak TLS.
func isTLSMistake(err error) bool {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" { // an alert of TLS
		return true
	}
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.HasPrefix(err.Error(), "tls: ") { // most errors of the package have no type
			return true
		}
	}
	return false
}

// IsPassing reports whether it may help to wait: a server is away, starts, fails over or is busy, its slots move, or the pool of
// connections is exhausted.
func IsPassing(err error) bool {
	switch {
	case err == nil:
		return false
	case IsReply(err):
		return hasPrefix(err, passing) || isCutOff(err)
	}
	return !IsFinal(err) && !errors.Is(err, ErrStrange) && !errors.Is(err, context.Canceled)
}

// IsPoolTimeout reports whether the client had no connection to send by. That says nothing of the server: connections may be in
// use because it does not answer, or by commands of others that take long.
func IsPoolTimeout(err error) bool {
	return errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}

var passing = append([]string{
	"CLUSTERDOWN", "LOADING ", "MASTERDOWN ", "READONLY ", "NOREPLICAS ", "BUSY ", "max number of clients",
	"UNBLOCKED ", "WAIT cannot be used with replica", // WAIT at a server that is no master any more
}, moving...)

// IsMoving reports whether a Cluster is moving the key's slot, which takes milliseconds for a key, or has just moved it: a
// node that this client trusts refuses the trust in the one before it.
func IsMoving(err error) bool { return hasPrefix(err, moving) || isCutOff(err) }

var moving = []string{"TRYAGAIN", "ASK ", "MOVED ", untrustedWord}

// isCutOff reports whether a Cluster has ended a script in the middle: it asked for a key that a slot that moves has
// at another node by now.
func isCutOff(err error) bool {
	return err != nil && IsReply(err) && strings.Contains(err.Error(), "non local key")
}

func hasPrefix(err error, prefixes []string) bool {
	return err != nil && slices.ContainsFunc(prefixes, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
}

// isWrongType reports whether a key holds something that is not a lock; an embedded server says so in the
// middle of the message.
func isWrongType(err error) bool {
	return err != nil && IsReply(err) && strings.Contains(err.Error(), "WRONGTYPE")
}

// isUnauthenticated reports whether the server refused a command for its length, as Redis does before it knows who
// sends it: NOAUTH is for short ones.
func isUnauthenticated(err error) bool {
	return err != nil && IsReply(err) && strings.Contains(err.Error(), "Protocol error: unauthenticated")
}

// IsUnknownCommand reports whether the server does not know a command.
func IsUnknownCommand(err error) bool {
	return err != nil && IsReply(err) && strings.Contains(err.Error(), "unknown command")
}

// untrustedWord begins what a script answers whose Guard does not trust the server.
const untrustedWord = "UNTRUSTED "

// isUntrusted reports whether a script did nothing because its Guard does not trust the server.
func isUntrusted(err error) bool { return err != nil && redis.HasErrorPrefix(err, untrustedWord) }

func isMissingScript(err error) bool {
	return err != nil && strings.Contains(err.Error(), "NOSCRIPT")
}

// IsTimeout reports whether err says that something took too long on a connection.
func IsTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}
