// Package echomw puts the locks and the idempotency of package httpmw on routes of echo 5: one request at a time for each user, item
// or tenant, whichever server it reaches.
//
//	e := echo.New()
//	e.Use(middleware.Recover(), authenticate)
//	perUser := echomw.WithLock(locks, httpmw.By("user", httpmw.PathValue("userID")))
//	e.POST("/users/:userID/orders", createOrder, perUser)
//
// Keys and options are those that httpmw offers, and clients get the same responses: see [docs/http.md]. httpmw.PathValue returns
// the parameters of the route, spelled as in c.Param. Claim makes a key of a value in the echo context. Other key functions see the
// request and its context only.
//
// Mount the middleware on a route, on a group or with Use. Pre runs before echo has the parameters of the route.
//
// # What can go wrong
//
// The lock can be lost while the handler runs. c.Request().Context() then ends with cause lockmw.ErrLost, and a success that has
// not begun is not sent.
//
// An error that the handler returns is answered by echo after the lock is released. If the lock was lost meanwhile, the client gets
// status 500 instead. Idempotent answers errors before it records the outcome.
//
// [docs/recipes.md] has the details.
//
// [docs/http.md]: https://github.com/lockmw/go/blob/main/docs/http.md
// [docs/recipes.md]: https://github.com/lockmw/go/blob/main/docs/recipes.md
package echomw
