package httpmw

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockmw/go/lockmw"
)

// JSON uses a value in the request's body as a part of the key. The pointer (RFC 6901) says where: "/customer/id", or
// "/items/0/sku" for the first element of an array. In a name, ~ is written ~0 and / is written ~1. JSON panics if pointer is not
// a JSON pointer.
//
// The value must be a string that is not empty, a number or a boolean. A number is taken as written: 42 and 42.0 make two keys,
// 42 and "42" make one. Decode it into an integer or a string, so that encoding/json refuses other spellings.
//
// The request is refused with status 400 if the body is not JSON, or if the value is missing, null, an object or an array. It is
// also refused if an object on the path contains the name twice, even in another case. encoding/json takes the last one and
// other parsers the first, so the handler might work on a value that is not locked.
//
// The body is read before the lock is requested; the handler can read all of it again. The limit is 64 KiB, or that of an
// http.MaxBytesHandler outside if it is lower; a longer body gets status 413. The body must arrive within 5 minutes or the
// request's deadline, whichever comes first. JSON ignores Content-Type, and other middleware must decompress the body first.
//
// The client chooses the value, so it does not prove who the client is. For an identity use Claim.
func JSON(pointer string) Part {
	path, err := parsePointer(pointer)
	if err != nil {
		panic(fmt.Sprintf("httpmw: JSON(%q): %v", pointer, err))
	}
	return func(r *http.Request) (string, error) {
		text, err := readBody(r)
		value := ""
		if err == nil {
			value, err = lookUp(text, path)
		}
		if err != nil && !errors.Is(err, lockmw.ErrNotRequested) {
			err = invalid("JSON(%q): %w", pointer, err)
		}
		return value, err
	}
}

// parsePointer returns the names and indices of a JSON pointer.
func parsePointer(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	if pointer[0] != '/' || !utf8.ValidString(pointer) {
		return nil, errors.New(`not a JSON pointer: it begins with "/"`)
	}
	path := strings.Split(pointer[1:], "/")
	for i, name := range path {
		if strings.Count(name, "~") != strings.Count(name, "~0")+strings.Count(name, "~1") {
			return nil, errors.New("not a JSON pointer: ~ is written ~0")
		}
		path[i] = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
	}
	return path, nil
}

var errNoBody = errors.New("the request has no body")

// readBody returns the body of r; the handler can read it again.
func readBody(r *http.Request) ([]byte, error) {
	b := newBody(r.Body, nil, time.Now())
	if b == nil {
		return nil, errNoBody
	}
	r.Body = b
	text, err := b.whole(r.Context(), r.ContentLength, smallBody)
	if err == nil && len(text) == 0 {
		err = errNoBody
	}
	return text, err
}

// lookUp returns the value at path in a JSON text.
func lookUp(text []byte, path []string) (string, error) {
	if !json.Valid(text) {
		return "", errors.New("the body is not a JSON text")
	}
	value := bytes.TrimSpace(text)
	for _, name := range path {
		var err error
		if value, err = child(value, name); err != nil {
			return "", err
		}
	}
	switch value[0] {
	case '{':
		return "", errors.New("the value is an object")
	case '[':
		return "", errors.New("the value is an array")
	case 'n':
		return "", errors.New("the value is null")
	case '"':
		var s string
		err := json.Unmarshal(value, &s)
		return s, err
	}
	return string(value), nil
}

// child returns the member of an object with this name, or the element of an array at this index. The value is valid JSON.
func child(value json.RawMessage, name string) (found json.RawMessage, err error) {
	in := json.NewDecoder(bytes.NewReader(value))
	opened, err := in.Token()
	if err != nil {
		return nil, err
	}
	isObject := opened == json.Delim('{')
	seen := false
	for i := 0; in.More(); i++ {
		at := strconv.Itoa(i) // "01" and "-" are not indices (RFC 6901, 4)
		if isObject {
			token, err := in.Token()
			if err != nil {
				return nil, err
			}
			at, _ = token.(string)
		}
		var member json.RawMessage
		if err := in.Decode(&member); err != nil {
			return nil, err
		}
		if at == name {
			found = member
		}
		if strings.EqualFold(at, name) { // as encoding/json compares them
			if seen {
				return nil, errors.New("an object contains the name twice")
			}
			seen = true
		}
	}
	if found == nil {
		return nil, errors.New("the value is missing")
	}
	return found, nil
}
