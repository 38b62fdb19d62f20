package script

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/answertext"
	"github.com/lockmw/go/internal/transport"
)

// Whatever the answer of a script contains, reading it returns meaningful values or an error: the server's own or
// transport.ErrMalformed.
func FuzzReply(f *testing.F) {
	for _, text := range []string{
		"( 1 7 1 0 )", "( 1 '7 40 3 )", "( 1 -7 1 0 )", "( 1 7 0 0 )", "( 1 9223372036854775807 9223372036854775807 0 )",
		"( 0 17 1 3 1 30000 owner lockmw:inbox:host:1:ab 16 5 00-trace )", "( 0 17 1 1 1 0 )",
		"( 30000 6 o i 16 5 t )", "( -1 6 o i 16 5 t )", "( -2 6 o i 16 5 t )", "( 9007199254740992 6 o i 16 5 t )",
		"( -9223372036854775808 6 o i -9223372036854775808 9223372036854775807 t )", "( 1 6 o i 16 5 )", "( 1 nil i 16 5 t )",
		"( 0 17 2 ( ( 0 1 ) ( -1 ) ( 1 7 1 0 ) ) 30000 o i 16 5 t o j 16 6 t )", "( 0 17 0 ( nil 5 x ( ) ) 0 )",
		"( ( ( ( ) ) ) )", "( ( nil 5 x ( 1 ) ) )", "( nan 1.5 inf 99999999999999999999 )", "( true false nil map )",
		"!WRONGTYPE_x", "( !ERR_x )", "5", "OK", "nil", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v := answertext.Parse(text)
		read := func(use func(r *transport.Reply)) *transport.Reply {
			cmd := redis.NewCmd(context.Background())
			if err, ok := v.(error); ok {
				cmd.SetErr(err)
			} else {
				cmd.SetVal(v)
			}
			r := transport.NewReply(cmd.Val(), cmd.Err(), 0)
			use(r)
			if want, ok := v.(error); ok && !errors.Is(r.Err, want) || !ok && r.Err != nil && !errors.Is(r.Err, transport.ErrMalformed) {
				t.Errorf("reading %q: %v", text, r.Err)
			}
			return r
		}
		checkGrant(t, text, v, read)
		checkHolder(t, text, v, read)
		checkList(t, text, v, read)
	})
}

func checkGrant(t *testing.T, text string, v any, read func(func(*transport.Reply)) *transport.Reply) {
	t.Helper()
	var code int64
	var g Grant
	r := read(func(r *transport.Reply) { code, g = r.Int(), readGrant(r) })
	switch token := answertext.Grant(v); {
	case (r.Err == nil && code == 1) != (token > 0):
		t.Errorf("the grant %q: %v", text, r.Err)
	case r.Err == nil && code == 1 && (g.Token != token || g.Token+g.Tokens < token):
		t.Errorf("the grant %q gives %+v", text, g)
	}
}

// endless is the TTL of a key that does not expire.
const endless = time.Duration(1 << 62)

func checkHolder(t *testing.T, text string, v any, read func(func(*transport.Reply)) *transport.Reply) {
	t.Helper()
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	good := len(list) == 1 || len(list)%5 == 2
	ms := int64(0)
	if good {
		ms, good = answertext.Int(list[0])
	}
	if good && len(list) > 1 {
		_, good = answertext.Int(list[1])
	}
	var want []core.Holder
	for rest := list[min(2, len(list)):]; good && len(rest) > 0; rest = rest[5:] {
		_, isOwner := rest[0].(string)
		_, isInbox := rest[1].(string)
		_, isTrace := rest[4].(string)
		token, isToken := answertext.Int(rest[2])
		since, isSince := answertext.Int(rest[3])
		good = isOwner && isInbox && isTrace && isToken && isSince
		want = append(want, core.Holder{Token: token, Since: core.Instant(since, time.Microsecond)})
	}
	ttl := time.Duration(min(max(ms, 0), endless.Milliseconds())) * time.Millisecond
	if ms == -1 || ms > endless.Milliseconds() {
		ttl = endless
	}
	r := read(func(r *transport.Reply) {
		got := readHolders(r, "lockmw:inbox:")
		if good && len(got) != len(want) {
			t.Errorf("the holders %q are %+v", text, got)
			return
		}
		for i, h := range got {
			if good && (h.TTL != ttl || h.Token != want[i].Token || h.Since != want[i].Since) {
				t.Errorf("a holder of %q is %+v", text, h)
			}
		}
	})
	if good != (r.Err == nil) {
		t.Errorf("the holders %q: %v", text, r.Err)
	}
}

func checkList(t *testing.T, text string, v any, read func(func(*transport.Reply)) *transport.Reply) {
	t.Helper()
	list, _ := v.([]any)
	var items []any
	isList := false
	if len(list) > 0 {
		items, isList = list[0].([]any)
	}
	r := read(func(r *transport.Reply) {
		got := r.List()
		if len(got) != len(items) {
			t.Errorf("the list %q has %d items", text, len(got))
		}
		for i, item := range got {
			item.Int()
			values, _ := items[i].([]any)
			if item.Err == nil && len(values) == 0 {
				t.Errorf("item %d of %q is a number", i, text)
			}
		}
	})
	if isList != (r.Err == nil) {
		t.Errorf("the list %q: %v", text, r.Err)
	}
}
