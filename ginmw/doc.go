// Package ginmw puts the locks and the idempotency of package httpmw on routes of gin: one request at a time for each user, item or
// tenant, whichever server it reaches.
//
//	r := gin.New()
//	r.Use(gin.Recovery(), authenticate)
//	perUser := ginmw.WithLock(locks, httpmw.By("user", httpmw.PathValue("userID")))
//	r.POST("/users/:userID/orders", perUser, createOrder)
//
// Keys and options are those that httpmw offers, and clients get the same responses: see [docs/http.md]. httpmw.PathValue returns
// the parameters of the route, spelled as in c.Param. Claim makes a key of a value in the gin context. Other key functions see the
// request and its context only.
//
// # What can go wrong
//
// The lock can be lost while the handler runs. c.Request.Context() then ends with cause lockmw.ErrLost, and a success that has not
// begun is not sent.
//
// A *gin.Context is not the context of the lock, unless engine.ContextWithFallback is set: lockmw.Held(c, key) returns ErrNotHeld,
// a nested Lock waits for itself, and c.Done is nil. Use c.Request.Context().
//
// [docs/recipes.md] has the details.
//
// [docs/http.md]: https://github.com/lockmw/go/blob/main/docs/http.md
// [docs/recipes.md]: https://github.com/lockmw/go/blob/main/docs/recipes.md
package ginmw
