// Package echolock mounts middleware of net/http, such as the locks of httpmw, on routes of echo. Copy it; what it
// cannot do is in docs/recipes.md.
package echolock

import (
	"net/http"

	"github.com/labstack/echo/v5"
)

// Wrap returns middleware of echo. It differs from echo.WrapMiddleware in that it gives the request and the response
// back: with a request whose context ended with the lock and a response that has not begun, echo's error handler
// would fail, or answer a second time.
func Wrap(middleware func(http.Handler) http.Handler) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) (err error) {
			request, response := c.Request(), c.Response()
			request.Pattern = c.Path()
			for _, p := range c.PathValues() {
				request.SetPathValue(p.Name, p.Value)
			}
			defer func() {
				c.SetRequest(request)
				c.SetResponse(response)
			}()
			middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c.SetRequest(r)
				c.SetResponse(w)
				err = next(c)
			})).ServeHTTP(response, request)
			return err
		}
	}
}
