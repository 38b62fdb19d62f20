// Package echolock mounts net/http middleware, such as the locks of httpmw, on routes of echo. Copy it; docs/recipes.md
// lists its limits.
package echolock

import (
	"net/http"

	"github.com/labstack/echo/v5"
)

// Wrap converts net/http middleware to echo middleware. Unlike echo.WrapMiddleware it restores the request and the
// response afterwards. Otherwise echo's error handler would get a request whose context ended with the lock and a response
// that seems unsent, and would fail or answer a second time.
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

// AnswerErrors lets echo answer an error of the handler immediately. Mount it inside of Wrap(httpmw.Idempotent(…)), which would
// otherwise take an error that is answered later for a success.
func AnswerErrors(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		if err := next(c); err != nil {
			c.Echo().HTTPErrorHandler(c, err)
		}
		return nil
	}
}
