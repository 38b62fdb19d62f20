// Package answertext reads answers of a Redis server from texts, for fuzz tests.
package answertext

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// An Error is a server's error reply, as go-redis represents it.
type Error string

func (e Error) Error() string { return string(e) }

// RedisError implements redis.Error.
func (Error) RedisError() {}

var _ redis.Error = Error("")

// Parse parses any text as an answer of a server. The tokens are numbers; nil, true, false; !error; 'string, whose text may
// look like another token; lists in parentheses.
//
//	( 0 17 1 1 30000 owner inbox 16 5 ' )
func Parse(text string) any {
	type list struct{ values []any }
	open := []*list{{}}
	last := func() *list { return open[len(open)-1] }
	closeOne := func() {
		closed := last()
		open = open[:len(open)-1]
		last().values = append(last().values, closed.values)
	}
	for word := range strings.FieldsSeq(text) {
		switch {
		case word == "(" && len(open) < 100:
			open = append(open, &list{values: []any{}})
		case word == ")" && len(open) > 1:
			closeOne()
		case word != "(" && word != ")":
			last().values = append(last().values, wordValue(word))
		}
	}
	for len(open) > 1 {
		closeOne()
	}
	if len(open[0].values) == 0 {
		return nil
	}
	return open[0].values[0]
}

func wordValue(word string) any {
	text := strings.ReplaceAll(word, "_", " ")
	switch {
	case word == "nil":
		return nil
	case word == "true", word == "false":
		return word == "true"
	case word == "map":
		return map[any]any{"a": int64(1)}
	case strings.HasPrefix(word, "!"):
		return Error(text[1:])
	case strings.HasPrefix(word, "'"):
		return text[1:]
	}
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		return n
	}
	if n, ok := new(big.Int).SetString(word, 10); ok {
		return n
	}
	if x, err := strconv.ParseFloat(word, 64); err == nil {
		return x
	}
	return text
}

// Int reads v as the engine does: a number, or a string with a number.
func Int(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil
	}
	return 0, false
}

// Grant returns the token of a grant in the form of acquire.lua, or of poll.lua for one ticket; 0 if v is not a grant.
func Grant(v any) (token int64) {
	list, _ := v.([]any)
	if len(list) < 4 {
		return 0
	}
	var n [4]int64
	for i := range n {
		var ok bool
		if n[i], ok = Int(list[i]); !ok {
			return 0
		}
	}
	if n[0] != 1 || n[1] < 1 || n[2] < 1 || n[1] > math.MaxInt64-n[2] {
		return 0
	}
	return n[1]
}
