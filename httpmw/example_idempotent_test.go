package httpmw_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// A client that got no answer sends its order again, with the same Idempotency-Key. The order is made once, and the second request
// gets the answer of the first. The same key with another order is a mistake of the client.
func ExampleIdempotent() {
	once := idempotency.New(lockmw.NewLocal()) // in production: of a lockmw.Client

	orders := 0
	r := chi.NewRouter()
	r.Use(middleware.Recoverer, authenticate)
	r.With(httpmw.Idempotent(once, httpmw.Claim(userID), idempotency.Refuse)).
		Post("/orders", func(w http.ResponseWriter, _ *http.Request) {
			orders++
			w.Header().Set("Location", fmt.Sprintf("/orders/%d", orders))
			w.WriteHeader(http.StatusCreated)
		})

	for _, cart := range []string{"a book", "a book", "a pen"} {
		req := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(cart))
		req.Header.Set("X-Test-User", "42")
		req.Header.Set("Idempotency-Key", "8e03978e-40d5-43dd-bc93-6894a57f9324")
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, req)
		fmt.Printf("%s: %d %q %q\n", cart, rec.Code, rec.Header().Get("Location"), rec.Header().Get("Idempotent-Replayed"))
	}
	fmt.Println("orders:", orders)
	// Output:
	// a book: 201 "/orders/1" ""
	// a book: 201 "/orders/1" "true"
	// a pen: 422 "" ""
	// orders: 1
}
