package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
)

// Failure returns the error of a failed command as callers receive it: it wraps core.ErrWrongType, or core.ErrUnavailable with
// its fault. It returns nil for nil.
func Failure(err error) error {
	switch {
	case err == nil:
		return nil
	case isWrongType(err):
		return fmt.Errorf("%w: %w", core.ErrWrongType, err)
	case isCrossSlot(err):
		err = fmt.Errorf("the server wants all keys of a script in one slot: for a Redis Cluster use redis.NewClusterClient, "+
			"for a proxy use lockmw.WithSlottedKeys: %w", err)
	case redis.HasErrorPrefix(err, "MOVED"):
		err = fmt.Errorf("the key is at another Redis Cluster node, use redis.NewClusterClient: %w", err)
	case isUnauthenticated(err):
		err = fmt.Errorf("the server requires a password: %w", err)
	case IsPoolTimeout(err):
		err = fmt.Errorf("the client's connection pool is exhausted: %w", err)
	default:
		err = explainUnfit(err)
	}
	switch {
	case IsFinal(err):
		err = core.WithFault(err, core.Lasting)
	case IsPoolTimeout(err):
		err = core.WithFault(err, core.Exhausted)
	}
	return fmt.Errorf("%w: %w", core.ErrUnavailable, err)
}

// IsReply reports whether err is the server's own answer. Something may have happened nevertheless: see didNothing.
func IsReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// isReplyWith reports whether err is the server's own answer and contains text.
func isReplyWith(err error, text string) bool {
	return IsReply(err) && strings.Contains(err.Error(), text)
}

// didNothing reports whether a run with this error has certainly written nothing. Other errors may come from the middle of a run,
// for example when a script is cut off in a slot that moves. The errors here come before the first write: a script makes its
// checks before that, and a server that refuses all writes refuses the first one. Errors that a new connection may receive are
// not among them: an earlier copy may have been lost with the old connection.
func didNothing(err error) bool {
	if err == nil {
		return false
	}
	if redis.HasErrorPrefix(err, "NOPERM") {
		return !strings.Contains(err.Error(), "script: ") // otherwise it is about a command in the script
	}
	return isMissingScript(err) || isWrongType(err) || isUnauthenticated(err) || hasPrefix(err, writesNothing)
}

var writesNothing = append([]string{
	"CLUSTERDOWN", "LOADING ", "MASTERDOWN ", "READONLY ", "NOREPLICAS ", "MISCONF ", "OOM ",
	"CROSSSLOT", "NOAUTH", "WRONGPASS",
}, moving...)

// How errors are classified, for every operation (rule 14 of docs/protocol.md):
//
//	IsTemporary  a call with time left waits: acquires, polls, renewals, extensions and releases
//	IsFull       an operator has to make room on the server. A new call ends; a queued call keeps its place and waits
//	IsFinal      nothing is retried, not even in the background: the configuration has to be changed first
//	others       a call ends, even if it is queued. A cancel, and the begin or mark of a tick, is retried

// IsFinal reports whether the server will continue to refuse, or will never be reached.
func IsFinal(err error) bool {
	switch {
	case err == nil:
		return false
	case IsReply(err):
		return isWrongType(err) || isUnauthenticated(err) || isCrossSlot(err) || hasPrefix(err, final) || unfitFor(err) != nil
	}
	_, ok := errors.AsType[*FinalError](err)
	return ok || isClosed(err) || isTLSMistake(err)
}

// A FinalError reports that a Guard will never trust a server.
type FinalError struct{ Err error }

// Error returns the text of the error.
func (e *FinalError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *FinalError) Unwrap() error { return e.Err }

// IsFull reports whether the server refuses to write because its memory or its disk is full.
func IsFull(err error) bool { return hasPrefix(err, []string{"OOM ", "MISCONF "}) }

var final = []string{
	"NOPERM", "NOAUTH", "WRONGPASS", "DENIED ", "unknown command", "AUTH ", "DB index is out of range", "invalid DB index",
	"SELECT is not allowed in cluster mode", "This instance has cluster support disabled",
	"The user executing the script can't ", // NOPERM in a script, before Redis 7.0
}

// isClosed reports whether this process has closed the client or the Sender.
func isClosed(err error) bool {
	return errors.Is(err, redis.ErrClosed) || errors.Is(err, core.ErrClosed)
}

// isTLSMistake reports whether one side refuses the other's certificate or TLS version, or does not speak TLS.
func isTLSMistake(err error) bool {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" { // a TLS alert
		return true
	}
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.HasPrefix(err.Error(), "tls: ") { // most errors of the package have no type
			return true
		}
	}
	return false
}

// IsTemporary reports whether waiting may help: a server is unreachable, starting, failing over or busy, its slots move, or the
// connection pool is exhausted.
func IsTemporary(err error) bool {
	switch {
	case err == nil:
		return false
	case IsReply(err):
		return hasPrefix(err, temporary) || isCutOff(err)
	}
	return !IsFinal(err) && !errors.Is(err, ErrMalformed) && !errors.Is(err, context.Canceled)
}

// IsPoolTimeout reports whether the client had no free connection. That shows nothing about the server: connections may be in use
// because it does not answer, or by slow commands of others.
func IsPoolTimeout(err error) bool {
	return errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}

var temporary = append([]string{
	"CLUSTERDOWN", "LOADING ", "MASTERDOWN ", "READONLY ", "NOREPLICAS ", "BUSY ", "max number of clients",
	"UNBLOCKED ", "WAIT cannot be used with replica", // WAIT at a server that is no longer a master
}, moving...)

// IsMoving reports whether a Cluster is moving the key's slot, which takes milliseconds for a key, or has just moved it: the new
// node then refuses the trusted name of the old one.
func IsMoving(err error) bool { return hasPrefix(err, moving) || isCutOff(err) }

var moving = []string{"TRYAGAIN", "ASK ", "MOVED ", untrustedWord}

// isCutOff reports whether a Cluster has ended a script in the middle, because the script used a key of a moving slot that is
// already at another node.
func isCutOff(err error) bool { return isReplyWith(err, "non local key") }

func hasPrefix(err error, prefixes []string) bool {
	if err == nil {
		return false
	}
	if inner := oldScriptError.FindStringSubmatch(err.Error()); inner != nil && IsReply(err) {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(inner[1], prefix) })
	}
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
}

// oldScriptError finds the error of a command in a script, which before Redis 7.0 follows the place in the script.
var oldScriptError = regexp.MustCompile(`^ERR Error running script .*?@user_script: \d+: -?(.*)`)

// isCrossSlot reports whether the server refused a script because its keys are in several slots. Redis begins the text with
// CROSSSLOT; some proxies do not.
func isCrossSlot(err error) bool { return isReplyWith(err, "same slot") }

// isWrongType reports whether a key holds something that is not a lock. An embedded server has the word in the middle of its
// message.
func isWrongType(err error) bool { return isReplyWith(err, "WRONGTYPE") }

// isUnauthenticated reports whether the server refused a command for its length, as Redis does before authentication. NOAUTH is
// the answer to short commands.
func isUnauthenticated(err error) bool { return isReplyWith(err, "Protocol error: unauthenticated") }

// IsAboutKey reports whether the server refused the key of a call, which shows nothing about other keys: it holds something that is
// not a lock, or the user has no right to it.
func IsAboutKey(err error) bool {
	return isWrongType(err) || isReplyWith(err, "to access a key") || isReplyWith(err, "one of the keys")
}

// IsUnknownCommand reports whether the server does not have a command.
func IsUnknownCommand(err error) bool { return isReplyWith(err, "unknown command") }

// untrustedWord begins the answer of a script whose Guard does not trust the server.
const untrustedWord = "UNTRUSTED "

// isUntrusted reports whether a script did nothing because its Guard does not trust the server.
func isUntrusted(err error) bool { return err != nil && redis.HasErrorPrefix(err, untrustedWord) }

func isMissingScript(err error) bool {
	return err != nil && strings.Contains(err.Error(), "NOSCRIPT")
}

// IsTimeout reports whether something took too long on a connection.
func IsTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}
