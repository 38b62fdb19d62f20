package echomw

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v5"
)

// Wrap converts any net/http middleware to echo middleware. During the handler, c.Request and c.Response belong to the middleware.
// The request has the parameters of the route (httpmw.PathValue) and its pattern.
//
// Unlike echo.WrapMiddleware, Wrap restores the request and the response afterwards. Otherwise echo's error handler would get a
// request whose context ended with the lock and a response that seems unsent, and would fail or answer a second time.
func Wrap(middleware func(http.Handler) http.Handler) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) (err error) {
			request, response := c.Request(), c.Response()
			request.Pattern = c.Path()
			for _, p := range c.PathValues() {
				request.SetPathValue(p.Name, p.Value)
			}
			known := request.WithContext(context.WithValue(request.Context(), echoKey{}, c)) // for Claim
			defer func() {
				c.SetRequest(request)
				c.SetResponse(response)
				if request.MultipartForm == nil {
					request.MultipartForm = known.MultipartForm // net/http removes its files
				}
			}()
			middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c.SetRequest(r)
				c.SetResponse(w)
				err = next(c)
			})).ServeHTTP(response, known)
			return err
		}
	}
}
