package httpmw_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
)

// For any body that a client sends, the handler can read all of it and decodes the value that was locked.
func FuzzJSON(f *testing.F) {
	for _, body := range []string{
		`{"customer":{"id":"42"}}`, `{"customer":{"id":42.0}}`, `{"customer":{"id":1,"Id":2}}`, `{"Customer":{"id":1},"customer":{"id":2}}`,
		`{"customer":{"id":null}}`, `{"customer":[1]}`, `{"customer":{"id":true}} x`, `{"customer":{"i\u0064":"\ud800"}}`, `[`, "", "\xff",
	} {
		f.Add(body)
	}
	part := httpmw.JSON("/customer/id")
	f.Fuzz(func(t *testing.T, text string) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text))
		value, err := part(r)
		rest, readErr := io.ReadAll(r.Body)
		if string(rest) != text || readErr != nil {
			t.Fatalf("the handler reads %q, %v", rest, readErr)
		}
		if err != nil {
			if !errors.Is(err, lockmw.ErrInvalidKey) && !errors.As(err, new(*http.MaxBytesError)) {
				t.Error(err)
			}
			return
		}
		var order struct {
			Customer struct {
				ID json.RawMessage `json:"id"`
			} `json:"customer"`
		}
		if err := json.Unmarshal(rest, &order); err != nil {
			t.Fatalf("locked %q: %v", value, err)
		}
		found := string(order.Customer.ID)
		if strings.HasPrefix(found, `"`) {
			if err := json.Unmarshal(order.Customer.ID, &found); err != nil {
				t.Fatal(err)
			}
		}
		if found != value {
			t.Errorf("locked %q, decoded %q", value, found)
		}
	})
}
