package keyed_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/keyed"
)

type order struct{ Item string }

func TestOnlyJSONOfTheTypeIsDecoded(t *testing.T) {
	for encoded, want := range map[string]string{
		`{"Item":"7"}`:              "",
		` {} `:                      "",
		"{\"Item\":\"\xff\"}":       "payload: not UTF-8",
		` null `:                    "payload: null",
		`{`:                         "payload: not JSON of keyed_test.order",
		``:                          "payload: not JSON of keyed_test.order",
		`[]`:                        "cannot unmarshal array",
		`{"Item":123456789012345}`:  "cannot unmarshal number into",
		`{"Item":"7"} {"Item":"8"}`: "payload: not JSON of keyed_test.order",
	} {
		_, err := keyed.Decode[order]("payload", []byte(encoded))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", encoded, err)
		case want != "" && (!errors.Is(err, core.ErrInvalidKey) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want an invalid key: %s", encoded, err, want)
		case err != nil && strings.Contains(err.Error(), "1234"):
			t.Errorf("the error repeats the digits of a number: %v", err)
		}
	}
	if v, err := keyed.Decode[order]("payload", []byte(`{"Item":"7"}`)); v.Item != "7" || err != nil {
		t.Errorf("%+v, %v", v, err)
	}
}
