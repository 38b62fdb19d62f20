package sqlstore

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/lockmw/go/idempotency"
)

// ErrSuperseded is returned by Commit if the run may not commit, because a later run has begun, the run has ended, or its record
// has expired. The transaction was rolled back. It wraps idempotency.ErrSuperseded.
var ErrSuperseded = fmt.Errorf("sqlstore: the transaction was rolled back: %w", idempotency.ErrSuperseded)

// A failure is an error of an operation. Its text has no key, though drivers quote values.
type failure struct {
	text string
	err  error
}

func (f *failure) Error() string { return f.text }

func (f *failure) Unwrap() error { return f.err }

// lockKeys matches what a database quotes of a key, which may be cut off.
var lockKeys = regexp.MustCompile(`idem:[0-9a-f]+`)

// failed returns the error of an operation; nil if err is nil.
func failed(op, key string, err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if key != "" {
		text = strings.ReplaceAll(text, key, "(key)")
	}
	return &failure{text: "sqlstore: " + op + ": " + lockKeys.ReplaceAllString(text, "(key)"), err: err}
}

// isLocked reports whether a statement failed, without a change, because a row is locked by another transaction. Drivers have
// no common way to say so.
func (d Dialect) isLocked(err error) bool {
	switch d {
	case Postgres:
		const lockNotAvailable = "55P03"
		var coded interface{ SQLState() string }
		return errors.As(err, &coded) && coded.SQLState() == lockNotAvailable
	case MySQL:
		const lockWaitTimeout, lockNowait = 1205, 3572 // MariaDB has the first for both
		n, ok := numberOf(err, "Number")
		return ok && (n == lockWaitTimeout || n == lockNowait)
	default:
		const busy, locked, kind = 5, 6, 0xff
		n, ok := numberOf(err, "Code")
		return ok && (n&kind == busy || n&kind == locked)
	}
}

// numberOf returns the integer that a driver's error has in a field, or returns from a method, of that name.
func numberOf(err error, name string) (int64, bool) {
	for ; err != nil; err = errors.Unwrap(err) {
		v := reflect.ValueOf(err)
		if m := v.MethodByName(name); m.IsValid() && m.Type().NumIn() == 0 && m.Type().NumOut() == 1 {
			if n, ok := integer(m.Call(nil)[0]); ok {
				return n, true
			}
		}
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() == reflect.Struct {
			if n, ok := integer(v.FieldByName(name)); ok {
				return n, true
			}
		}
	}
	return 0, false
}

func integer(v reflect.Value) (int64, bool) {
	switch {
	case v.CanInt():
		return v.Int(), true
	case v.CanUint():
		return int64(v.Uint()), true
	}
	return 0, false
}
