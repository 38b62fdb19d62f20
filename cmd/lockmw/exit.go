package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/doctor"
	"github.com/lockmw/go/lockmw"
)

// Exit statuses, which are documented: scripts rely on them.
const (
	statusDone        = 0
	statusFailed      = 1 // Redis cannot be reached, or refuses
	statusUsage       = 2 // the command line makes no sense
	statusNothing     = 3 // no lock matches, or nobody holds the key
	statusGone        = 4 // there is no such hold, or it has ended
	statusUnconfirmed = 5 // whoever was asked did not say yes
	statusUnfit       = 6 // doctor found a failure
)

// A statusError is an error with an exit status of its own. One without text was told already.
type statusError struct {
	status int
	text   safe
}

func (e *statusError) Error() string { return string(e.text) }

func usage(format string, args ...any) error {
	return &statusError{statusUsage, say(format, args...)}
}

// exitStatus tells of an error in words that an operator can use, and returns the exit status for it.
func (c *command) exitStatus(ctx context.Context, err error) int {
	var own *statusError
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE): // whoever reads has read enough
		return statusDone
	case errors.As(err, &own):
		if own.text != "" {
			printf(c.io.err, "lockmw: %s\n", own.text)
		}
		return own.status
	case ctx.Err() != nil:
		return 130 // as shells say of an interrupt
	}
	printf(c.io.err, "lockmw: %s\n", paragraph(c.secrets.hide(err.Error())))
	if h := hint(err); h != "" {
		printf(c.io.err, "  → %s\n", h)
	}
	return statusFailed
}

// hint says what to do about an error: by this command's own flags where they help, and otherwise as the doctor does.
func hint(err error) string {
	text := err.Error()
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	switch {
	case has("WRONGPASS"):
		return "the user or the password is wrong: see LOCKMW_USER, LOCKMW_PASSWORD and --password-file"
	case has("NOAUTH", "unauthenticated"):
		return "the server wants a password: set LOCKMW_PASSWORD or --password-file, and LOCKMW_USER if it is not the default user's"
	case has("NOPERM") && has("scan"):
		return "this user may not SCAN, which lists of locks need; `lockmw show KEY` does without. Rights: " + documents + "operations.md#access-rights"
	case has("x509:", "tls:"):
		return "see --tls-ca, --tls-cert and --tls-key; without TLS the URL begins with redis://"
	case has("connection refused", "i/o timeout", "no such host", "EOF", "connection reset", "deadline exceeded"):
		return "no Redis answers there: see --redis or LOCKMW_REDIS. A server with TLS wants rediss://"
	case has("fencing"): // it says itself what to do
		return ""
	case errors.Is(err, lockmw.ErrWrongType):
		return "another program's data is at that key: choose another --prefix"
	}
	return doctor.Remedy(err)
}

// secrets are passwords, which no output shows.
type secrets []string

func (s secrets) hide(text string) string {
	for _, secret := range s {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return text
}

// isDenied reports whether the server refuses a command for want of rights.
func isDenied(err error) bool {
	return err != nil && redis.HasErrorPrefix(err, "NOPERM") || err != nil && strings.Contains(err.Error(), "NOPERM")
}
