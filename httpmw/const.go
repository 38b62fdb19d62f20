package httpmw

import (
	"net/http"

	"github.com/lockmw/go/internal/keyed"
)

// Const makes a KeyFunc whose key is always the same, that of lockmw.Key(kind, parts...): for a route that
// handles one request at a time, whoever sends it. It panics if the key is empty, or longer than 1024 bytes.
func Const(kind string, parts ...string) KeyFunc {
	key := keyed.Const("httpmw", kind, parts)
	return func(*http.Request) (string, error) { return key, nil }
}
