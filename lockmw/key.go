package lockmw

import (
	"context"
	"fmt"
	"strings"
)

// maxKeyLen is the longest key in bytes.
const maxKeyLen = 1024

// A KeyFunc says which lock a call needs. It returns ErrNoLock to run this call without one; any
// other error ends the call before a lock is asked for.
type KeyFunc[In any] func(ctx context.Context, in In) (string, error)

// By makes a KeyFunc from the kind of thing and functions that take the key's parts from the input:
//
//	lockmw.By("order", func(o Order) string { return o.User }, func(o Order) string { return o.Item })
//
// An empty part makes the key invalid, as in Key. By panics without parts or if one is nil.
func By[In any](kind string, parts ...func(In) string) KeyFunc[In] {
	if len(parts) == 0 {
		panic(fmt.Sprintf("lockmw: By(%q) without parts would make one lock for everything", kind))
	}
	for i, part := range parts {
		if part == nil {
			panic(fmt.Sprintf("lockmw: By(%q): part %d is nil", kind, i+1))
		}
	}
	return func(_ context.Context, in In) (string, error) {
		values := make([]string, len(parts))
		for i, part := range parts {
			values[i] = part(in)
		}
		return Key(kind, values...), nil
	}
}

// Key joins the kind of thing and its identifying parts: Key("user", "42") is "user:42". Each is
// escaped (':' is %3A, '%' is %25), so that different parts never make the same key. An empty kind
// or part makes the whole key empty, which every call refuses with ErrInvalidKey: a missing ID can
// never mean one lock shared by all.
func Key(kind string, parts ...string) string {
	if kind == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString(escapePart.Replace(kind))
	for _, part := range parts {
		if part == "" {
			return ""
		}
		b.WriteByte(':')
		b.WriteString(escapePart.Replace(part))
	}
	return b.String()
}

var escapePart = strings.NewReplacer("%", "%25", ":", "%3A")

func checkKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: it is empty (a part of it was missing?)", ErrInvalidKey)
	case len(key) > maxKeyLen:
		return fmt.Errorf("%w: %d bytes, more than %d", ErrInvalidKey, len(key), maxKeyLen)
	}
	return nil
}
