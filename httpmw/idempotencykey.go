package httpmw

import (
	"errors"
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
	key := textproto.TrimString(values[0])
	var err error
	if strings.HasPrefix(key, `"`) {
		key, err = unquoted(key)
	}
	if err != nil || len(values) > 1 || key == "" || len(key) > idempotency.MaxID || strings.ContainsFunc(key, isInvisible) {
		return "", errIdempotencyKey
	}
	return key, nil
}

func isInvisible(r rune) bool { return r <= ' ' || r > '~' }

var errQuotes = errors.New("not a string")

// unquoted returns the value of a string (RFC 9651, 3.3.3).
func unquoted(s string) (string, error) {
	inner, closed := strings.CutSuffix(s[1:], `"`)
	if !closed {
		return "", errQuotes
	}
	var b strings.Builder
	for i := 0; i < len(inner); i++ {
		c := inner[i]
		switch c {
		case '\\':
			if i++; i == len(inner) || inner[i] != '\\' && inner[i] != '"' {
				return "", errQuotes
			}
			c = inner[i]
		case '"':
			return "", errQuotes
		}
		b.WriteByte(c)
	}
	return b.String(), nil
}
