package httpmw

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/lockmw/go/internal/keyed"
	"github.com/lockmw/go/lockmw"
)

// A KeyFunc says which lock a request needs. It may be any function of this shape; By makes one of
// parts. If it returns lockmw.ErrNoLock the request is handled without a lock. Any other error refuses
// the request: with status 400 if it wraps lockmw.ErrInvalidKey, as it should where the request is at
// fault, 413 for a *http.MaxBytesError, 401 for ErrNoClaim, 503 for lockmw.ErrUnavailable and context.DeadlineExceeded.
// Others are logged, with status 500. An empty key is a 400.
//
// The same key means the same lock everywhere, in tasks and plain functions too.
type KeyFunc func(*http.Request) (string, error)

// A KeysFunc says which locks a request needs together, in any order. If it returns lockmw.ErrNoLock the
// request is handled without a lock. If it returns neither keys nor an error the request is refused, as
// with an empty key.
type KeysFunc func(*http.Request) ([]string, error)

// A Part is a piece of a key, such as an ID. It is not a KeyFunc, because an ID does not say what it
// is the ID of: By does.
type Part func(*http.Request) (string, error)

// By makes a KeyFunc from the kind of thing and the parts that identify it:
//
//	httpmw.By("user", httpmw.URLParam("userID")) // user:42
//
// The key is that of lockmw.Key: parts are escaped, so that different parts never make the same key.
// If a part is empty or fails, the request is refused; an empty part never means one lock shared by all.
// By panics if kind is empty, or so long that no key fits, and if there is no part or a nil one.
func By(kind string, parts ...Part) KeyFunc {
	pattern := keyed.NewPattern("httpmw", "requests", kind, parts)
	return func(r *http.Request) (string, error) {
		return pattern.Key(func(part Part) (string, error) { return part(r) })
	}
}

// All makes a KeysFunc of several KeyFuncs. One that returns lockmw.ErrNoLock adds no key; if all of
// them do, the request needs no lock. All panics without a KeyFunc or with a nil one.
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

// A partError is why a part refuses a request. Nothing that the client has sent is in it, so that it may be logged.
type partError struct{ error }

func (e *partError) Unwrap() error { return e.error }

func invalid(format string, args ...any) error {
	return &partError{fmt.Errorf("%w: %w", lockmw.ErrInvalidKey, fmt.Errorf(format, args...))}
}

// checked is f, and refuses an empty key: not every Locker does.
func (f KeyFunc) checked(r *http.Request) (string, error) {
	key, err := f(r)
	if err == nil && key == "" {
		err = keyed.ErrEmpty
	}
	return key, err
}

func (f KeysFunc) checked(r *http.Request) ([]string, error) {
	keys, err := f(r)
	if err == nil && len(keys) == 0 {
		err = fmt.Errorf("%w: there are none", lockmw.ErrInvalidKey)
	}
	for _, key := range keys {
		if err == nil && key == "" {
			err = keyed.ErrEmpty
		}
	}
	return keys, err
}

// Const makes a KeyFunc whose key is always the same, that of lockmw.Key(kind, parts...): for a route that
// handles one request at a time, whoever sends it. It panics if the key is empty, or longer than 1024 bytes.
func Const(kind string, parts ...string) KeyFunc {
	key := keyed.Const("httpmw", kind, parts)
	return func(*http.Request) (string, error) { return key, nil }
}
