package httpmw

import (
	"fmt"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// idempotencyHeader has the key that the client has chosen for a request, and sends again with each repetition.
const idempotencyHeader = "Idempotency-Key"

var (
	errNoIdempotencyKey = &refusedError{problemNoIdempotencyKey, fmt.Errorf("%w: no Idempotency-Key", lockmw.ErrInvalidKey)}
	errIdempotencyKey   = &refusedError{problemIdempotencyKey, fmt.Errorf("%w: the Idempotency-Key is not valid", lockmw.ErrInvalidKey)}
)

// idempotencyKey returns the key of a request. It may be bare, or a string as of RFC 9651: abc and "abc" are the same key.
func idempotencyKey(h http.Header) (string, error) {
	values := h[idempotencyHeader]
	if len(values) == 0 {
		return "", errNoIdempotencyKey
	}
	key, valid := textproto.TrimString(values[0]), true
	if strings.HasPrefix(key, `"`) {
		key, valid = unquoted(key)
	}
	if !valid || len(values) > 1 || key == "" || len(key) > idempotency.MaxID || strings.ContainsFunc(key, isInvisible) {
		return "", errIdempotencyKey
	}
	return key, nil
}

func isInvisible(r rune) bool { return r <= ' ' || r > '~' }

// The two escapes of a string (RFC 9651, 3.3.3).
var (
	unescape      = strings.NewReplacer(`\\`, `\`, `\"`, `"`)
	removeEscaped = strings.NewReplacer(`\\`, "", `\"`, "")
)

// unquoted returns the value of a string that begins with a quote; false if it is not valid.
func unquoted(s string) (value string, valid bool) {
	inner, closed := strings.CutSuffix(s[1:], `"`)
	if !closed || strings.ContainsAny(removeEscaped.Replace(inner), `\"`) {
		return "", false
	}
	return unescape.Replace(inner), true
}
