package engine

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A replyError is a server's error reply, as go-redis has it.
type replyError string

func (e replyError) Error() string { return string(e) }

// RedisError marks it.
func (replyError) RedisError() {}

var _ redis.Error = replyError("")

// valueOf reads an answer of a server from a text, in which every text is one: numbers; nil, true,
// false; !error; 'string, which may look like anything else; lists in parentheses.
//
//	( 0 17 1 1 30000 owner inbox 16 5 ' )
func valueOf(text string) any {
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
		return replyError(text[1:])
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

// whole reads v as the engine may: a number, also as a string.
func whole(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil
	}
	return 0, false
}

// grantIn returns the token of a grant in the form that acquire.lua has, and poll.lua for each
// ticket; 0 if v is none.
func grantIn(v any) (token int64) {
	list, _ := v.([]any)
	if len(list) < 4 {
		return 0
	}
	var n [4]int64
	for i := range n {
		var ok bool
		if n[i], ok = whole(list[i]); !ok {
			return 0
		}
	}
	if n[0] != 1 || n[1] < 1 || n[2] < 1 || n[1] > math.MaxInt64-n[2] {
		return 0
	}
	return n[1]
}

func TestValueOf(t *testing.T) {
	v, _ := valueOf("( 1 '1 ( nil 1.5 ) !ERR_no x_y").([]any)
	if len(v) != 5 || v[0] != int64(1) || v[1] != "1" || len(v[2].([]any)) != 2 || v[3] != replyError("ERR no") || v[4] != "x y" {
		t.Errorf("%#v", v)
	}
	if token := grantIn(valueOf("( 1 7 '2 0 )")); token != 7 {
		t.Errorf("token %d", token)
	}
	if token := grantIn(valueOf("( 1 9223372036854775807 2 0 )")); token != 0 {
		t.Errorf("token %d", token)
	}
}
