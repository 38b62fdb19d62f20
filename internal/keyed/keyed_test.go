package keyed_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/keyed"
)

type part func() (string, error)

func is(value string) part { return func() (string, error) { return value, nil } }

func call(p part) (string, error) { return p() }

func TestMistakesPanicWhenThePatternIsMade(t *testing.T) {
	for name, tt := range map[string]struct {
		kind  string
		parts []part
		want  string
	}{
		"no kind":    {"", []part{is("1")}, "pkg: By: the kind is empty"},
		"no parts":   {"user", nil, `pkg: By("user"): no parts: all calls would share one lock, for which there is Const`},
		"a nil part": {"user", []part{is("1"), nil}, `pkg: By("user"): part 2 is nil`},
		"no room for a part": {strings.Repeat("k", keyed.MaxLen-1), []part{is("1")},
			`pkg: By("kkkkkkkkkkkkkkkkkkkk"…): the kind is so long that every key has more than 1024 bytes`},
		"no room once it is escaped": {strings.Repeat("%", 341), []part{is("1")},
			`pkg: By("%%%%%%%%%%%%%%%%%%%%"…): the kind is so long that every key has more than 1024 bytes`},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); got != tt.want {
					t.Errorf("panic %q, want %q", got, tt.want)
				}
			}()
			keyed.NewPattern("pkg", "calls", tt.kind, tt.parts)
		})
	}
}

func TestAKeyIsJoinedOfItsParts(t *testing.T) {
	key, err := keyed.NewPattern("pkg", "calls", "a:b", []part{is("1%"), is("2")}).Key(call)
	if want := "a%3Ab:1%25:2"; key != want || err != nil {
		t.Errorf("%q, %v; want %q", key, err, want)
	}
	longest := strings.Repeat("k", keyed.MaxLen-2)
	if key, err := keyed.NewPattern("pkg", "calls", longest, []part{is("1")}).Key(call); err != nil || keyed.Check(key) != nil {
		t.Errorf("the longest kind: %v, %v", err, keyed.Check(key))
	}
}

func TestAPartThatFailsIsNamedByItsNumber(t *testing.T) {
	cause := errors.New("no such user")
	for _, tt := range []struct {
		second part
		is     error
	}{
		{is(""), core.ErrInvalidKey},
		{func() (string, error) { return "", cause }, cause},
		{func() (string, error) { return "2", cause }, cause},
	} {
		key, err := keyed.NewPattern("pkg", "calls", "user", []part{is("1"), tt.second}).Key(call)
		if key != "" || !errors.Is(err, tt.is) || !strings.HasPrefix(err.Error(), `part 2 of key "user": `) {
			t.Errorf("key %q, error %v; want %v of part 2", key, err, tt.is)
		}
	}
}

func TestLaterChangesOfThePartsDoNotCount(t *testing.T) {
	parts := []part{is("1")}
	pattern := keyed.NewPattern("pkg", "calls", "user", parts)
	parts[0] = is("2")
	if key, err := pattern.Key(call); key != "user:1" || err != nil {
		t.Errorf("%q, %v", key, err)
	}
}

func TestCheckRefusesWhatIsNoKey(t *testing.T) {
	for key, valid := range map[string]bool{
		"": false, "k": true, strings.Repeat("k", keyed.MaxLen): true, strings.Repeat("k", keyed.MaxLen+1): false,
	} {
		if err := keyed.Check(key); (err == nil) != valid || err != nil && !errors.Is(err, core.ErrInvalidKey) {
			t.Errorf("%d bytes: %v", len(key), err)
		}
	}
}
