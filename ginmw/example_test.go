package ginmw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/go/ginmw"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// A user's orders are handled one at a time.
func ExampleWithLock() {
	locks := lockmw.NewLocal() // in a service: lockmw.New
	createOrder := func(c *gin.Context) { c.Status(http.StatusCreated) }
	gin.SetMode(gin.TestMode)

	r := gin.New()
	perUser := ginmw.WithLock(locks, httpmw.By("user", httpmw.PathValue("userID")))
	r.POST("/users/:userID/orders", perUser, createOrder)

	_, hold, _ := locks.Lock(context.Background(), lockmw.Key("user", "42")) // 42 orders elsewhere
	defer hold.Unlock()
	for _, user := range []string{"42", "43"} {
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/users/"+user+"/orders", nil))
		fmt.Println(rec.Code)
	}
	// Output:
	// 409
	// 201
}

// The user comes from the gin context, where authentication has put it.
func ExampleClaim() {
	locks := lockmw.NewLocal()
	createOrder := func(c *gin.Context) { fmt.Println(c.GetString("user")) }
	authenticate := func(c *gin.Context) { c.Set("user", "42") }
	gin.SetMode(gin.TestMode)

	r := gin.New()
	userID := ginmw.Claim(func(c *gin.Context) (string, bool) { return c.GetString("user"), true })
	r.POST("/orders", authenticate, ginmw.WithLock(locks, httpmw.By("user", userID)), createOrder)

	r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/orders", nil))
	// Output: 42
}

// A repetition with the same key gets the first answer.
func ExampleIdempotent() {
	once := idempotency.New(lockmw.NewLocal())
	orders := 0
	createOrder := func(c *gin.Context) { orders++; c.JSON(http.StatusCreated, orders) }
	authenticate := func(c *gin.Context) { c.Set("user", "42") }
	userID := ginmw.Claim(func(c *gin.Context) (string, bool) { return c.GetString("user"), true })
	gin.SetMode(gin.TestMode)

	r := gin.New()
	r.Use(authenticate)
	r.POST("/orders", ginmw.Idempotent(once, userID, idempotency.Refuse), createOrder)

	for _, key := range []string{"a", "a", "b"} {
		rec := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodPost, "/orders", nil)
		req.Header.Set("Idempotency-Key", key)
		r.ServeHTTP(rec, req)
		fmt.Println(rec.Body)
	}
	// Output:
	// 1
	// 1
	// 2
}
