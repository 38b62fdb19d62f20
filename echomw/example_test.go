package echomw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/labstack/echo/v5"

	"github.com/lockmw/go/echomw"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// A user's orders are handled one at a time.
func ExampleWithLock() {
	locks := lockmw.NewLocal() // in a service: lockmw.New
	createOrder := func(c *echo.Context) error { return c.NoContent(http.StatusCreated) }

	e := echo.New()
	perUser := echomw.WithLock(locks, httpmw.By("user", httpmw.PathValue("userID")))
	e.POST("/users/:userID/orders", createOrder, perUser)

	_, hold, _ := locks.Lock(context.Background(), lockmw.Key("user", "42")) // 42 orders elsewhere
	defer hold.Unlock()
	for _, user := range []string{"42", "43"} {
		rec := httptest.NewRecorder()
		e.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/users/"+user+"/orders", nil))
		fmt.Println(rec.Code)
	}
	// Output:
	// 409
	// 201
}

// authenticate puts the user into the echo context.
func authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		c.Set("user", "42")
		return next(c)
	}
}

// The user comes from the echo context, where authentication has put it.
func ExampleClaim() {
	locks := lockmw.NewLocal()
	createOrder := func(c *echo.Context) error { fmt.Println(c.Get("user")); return nil }

	e := echo.New()
	userID := echomw.Claim(func(c *echo.Context) (string, bool) { id, ok := c.Get("user").(string); return id, ok })
	e.POST("/orders", createOrder, authenticate, echomw.WithLock(locks, httpmw.By("user", userID)))

	e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/orders", nil))
	// Output: 42
}

// A repetition with the same key gets the first answer.
func ExampleIdempotent() {
	once := idempotency.New(lockmw.NewLocal())
	orders := 0
	createOrder := func(c *echo.Context) error { orders++; return c.JSON(http.StatusCreated, orders) }
	userID := echomw.Claim(func(c *echo.Context) (string, bool) { id, ok := c.Get("user").(string); return id, ok })

	e := echo.New()
	e.Use(authenticate)
	e.POST("/orders", createOrder, echomw.Idempotent(once, userID, idempotency.Refuse))

	for _, key := range []string{"a", "a", "b"} {
		rec := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodPost, "/orders", nil)
		req.Header.Set("Idempotency-Key", key)
		e.ServeHTTP(rec, req)
		fmt.Print(rec.Body)
	}
	// Output:
	// 1
	// 1
	// 2
}
