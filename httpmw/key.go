package httpmw

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/lockmw/go/internal/keyed"
	"github.com/lockmw/go/lockmw"
)

// A KeyFunc returns the key of the lock that a request needs. Any function with this signature will do; By builds one from parts.
// The same key means the same lock everywhere, including tasks and plain functions.
//
// If it returns lockmw.ErrNoLock, the request runs without a lock. Any other error refuses the request:
//
//   - 400 for lockmw.ErrInvalidKey, which it should wrap if the request is at fault; also for an empty key
//   - 401 for ErrNoClaim
//   - 413 for a *http.MaxBytesError
//   - 503 for lockmw.ErrUnavailable and context.DeadlineExceeded
//   - 500 for all other errors, which are logged
type KeyFunc func(*http.Request) (string, error)

// A KeysFunc returns the keys of the locks that a request needs together, in any order. If it returns lockmw.ErrNoLock, the
// request runs without a lock. If it returns neither keys nor an error, the request is refused with status 400, as with an empty
// key.
type KeysFunc func(*http.Request) ([]string, error)

// A Part returns one part of a key, such as an ID. It is not a KeyFunc, because an ID alone does not name the kind of thing. By
// adds the kind.
type Part func(*http.Request) (string, error)

// By builds a KeyFunc from the kind of thing and the parts that identify it:
//
//	httpmw.By("user", httpmw.URLParam("userID")) // user:42
//
// The key has the format of lockmw.Key: parts are escaped, so that different parts never make the same key. If a part is empty
// or fails, the request is refused. An empty part never means one lock for everybody. By panics if kind is empty or too long for
// any key to fit into 1024 bytes, if there is no part, or if a part is nil.
func By(kind string, parts ...Part) KeyFunc {
	pattern := keyed.NewPattern("httpmw", "requests", kind, parts)
	return func(r *http.Request) (string, error) {
		return pattern.Key(func(part Part) (string, error) { return part(r) })
	}
}

// All combines several KeyFuncs into a KeysFunc. A KeyFunc that returns lockmw.ErrNoLock adds no key; if all of them do, the
// request runs without a lock. All panics without a KeyFunc or with a nil one.
func All(keys ...KeyFunc) KeysFunc {
	if len(keys) == 0 {
		panic("httpmw: All: no key functions")
	}
	for i, key := range keys {
		if key == nil {
			panic(fmt.Sprintf("httpmw: All: key function %d is nil", i+1))
		}
	}
	return func(r *http.Request) ([]string, error) {
		all := make([]string, 0, len(keys))
		for _, key := range keys {
			k, err := key(r)
			if errors.Is(err, lockmw.ErrNoLock) {
				continue
			}
			if err != nil {
				return nil, err
			}
			all = append(all, k)
		}
		if len(all) == 0 {
			return nil, lockmw.ErrNoLock
		}
		return all, nil
	}
}

// A partError explains why a part of this package refuses a request. It may be logged, because it quotes nothing that the client
// has sent.
type partError struct{ error }

func (e *partError) Unwrap() error { return e.error }

func invalid(format string, args ...any) error {
	return &partError{fmt.Errorf("%w: %w", lockmw.ErrInvalidKey, fmt.Errorf(format, args...))}
}

// checked calls f and refuses an empty key, because not every Locker does.
func (f KeyFunc) checked(r *http.Request) (string, error) {
	key, err := f(r)
	if err == nil && key == "" {
		err = keyed.ErrEmpty
	}
	return key, err
}

func (f KeysFunc) checked(r *http.Request) ([]string, error) {
	keys, err := f(r)
	switch {
	case err != nil:
	case len(keys) == 0:
		err = fmt.Errorf("%w: no keys", lockmw.ErrInvalidKey)
	case slices.Contains(keys, ""):
		err = keyed.ErrEmpty
	}
	return keys, err
}

// Const builds a KeyFunc for a route that handles one request at a time, whichever client sends it. The key is always
// lockmw.Key(kind, parts...). Const panics if the key is empty or longer than 1024 bytes.
func Const(kind string, parts ...string) KeyFunc {
	key := keyed.Const("httpmw", kind, parts)
	return func(*http.Request) (string, error) { return key, nil }
}
