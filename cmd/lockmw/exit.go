package main

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/lockmw/go/internal/doctor"
	"github.com/lockmw/go/internal/keyed"
	"github.com/lockmw/go/lockmw"
)

// Exit statuses are documented, because scripts rely on them.
const (
	statusDone        = 0
	statusFailed      = 1 // Redis is unreachable or refuses a command
	statusUsage       = 2 // the command line is invalid
	statusNothing     = 3 // no lock matches, or nobody holds the key
	statusGone        = 4 // the hold has ended or never existed
	statusUnconfirmed = 5 // the operator did not answer yes
	statusUnfit       = 6 // doctor found a failure
)

// A statusError is an error with its own exit status. If its text is empty, the command has printed the reason already.
type statusError struct {
	status int
	text   safe
}

func (e *statusError) Error() string { return string(e.text) }

func usage(format string, args ...any) error {
	return &statusError{statusUsage, say(format, args...)}
}

// checkKey returns an error if no lock can have this key.
func checkKey(key string) error {
	if err := keyed.Check(key); err != nil {
		return usage("%v", err)
	}
	return nil
}

// exitStatus prints an error for the operator, with a hint if there is one, and returns the exit status for it.
func (c *command) exitStatus(ctx context.Context, err error) int {
	var own *statusError
	switch {
	case err == nil:
		return statusDone
	case errors.As(err, &own):
		if own.text != "" {
			printf(c.io.err, "lockmw: %s\n", own.text)
		}
		return own.status
	case isReadEnough(err):
		return statusDone
	case ctx.Err() != nil:
		return 130 // the exit status of shells after an interrupt
	}
	printf(c.io.err, "lockmw: %s\n", paragraph(c.secrets.hide(err.Error())))
	if h := hint(err); h != "" {
		printf(c.io.err, "  → %s\n", h)
	}
	return statusFailed
}

// isReadEnough reports whether the reader of the output has closed its pipe. A connection to Redis may break with the same error.
func isReadEnough(err error) bool {
	_, ofNetwork := errors.AsType[*net.OpError](err)
	return errors.Is(err, syscall.EPIPE) && !ofNetwork
}

// hint returns the remedy for an error: this command's own flags where they help, otherwise the doctor's remedy.
func hint(err error) string {
	text := err.Error()
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	switch {
	case has("WRONGPASS"):
		return "the user or the password is wrong: see LOCKMW_USER, LOCKMW_PASSWORD and --password-file"
	case has("NOAUTH", "unauthenticated"):
		return "the server requires a password: set LOCKMW_PASSWORD or --password-file, and LOCKMW_USER unless it is the default user"
	case has("NOPERM") && has("scan"):
		return "this user may not run SCAN, which lists of locks need; `lockmw show KEY` works without it. Rights: " + documents + "operations.md#access-rights"
	case has("x509:", "tls:"):
		return "check --tls-ca, --tls-cert and --tls-key; without TLS the URL begins with redis://"
	case has("connection refused", "i/o timeout", "no such host", "EOF", "connection reset", "deadline exceeded"):
		return "no Redis answers at this address: check --redis or LOCKMW_REDIS. A server with TLS needs rediss://"
	case has("fencing"): // the error text contains its own remedy
		return ""
	case errors.Is(err, lockmw.ErrWrongType):
		return "the key holds another program's data: choose another --prefix"
	}
	return doctor.Remedy(err)
}

// secrets are passwords that no output may show.
type secrets []string

func (s secrets) hide(text string) string {
	for _, secret := range s {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return text
}
