// Package ginlock mounts net/http middleware, such as the locks of httpmw, on routes of gin. Copy it; docs/recipes.md
// lists its limits.
package ginlock

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

// Wrap converts net/http middleware to a gin handler, which runs the following handlers inside the middleware. During that
// time c.Request and c.Writer belong to the middleware; afterwards they are restored. The request has the parameters of
// the route (httpmw.PathValue) and its pattern.
func Wrap(middleware func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		request, writer := c.Request, c.Writer
		request.Pattern = c.FullPath()
		for _, p := range c.Params {
			request.SetPathValue(p.Key, p.Value)
		}
		handled := false
		defer func() {
			c.Request, c.Writer = request, writer // after a panic the outer recovery answers
			if !handled {
				c.Abort()
			}
		}()
		middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handled = true
			c.Request, c.Writer = r, &responseWriter{writer, w}
			c.Next()
		})).ServeHTTP(writer, request)
	}
}

// A responseWriter is gin's writer, but writes through the middleware's writer, which wraps gin's.
type responseWriter struct {
	gin.ResponseWriter
	inner http.ResponseWriter
}

func (w *responseWriter) Unwrap() http.ResponseWriter { return w.inner }

func (w *responseWriter) WriteHeader(code int) { w.inner.WriteHeader(code) }

func (w *responseWriter) WriteHeaderNow() { _, _ = w.inner.Write(nil) }

func (w *responseWriter) Write(b []byte) (int, error) { return w.inner.Write(b) }

func (w *responseWriter) WriteString(s string) (int, error) { return io.WriteString(w.inner, s) }

func (w *responseWriter) Flush() { _ = http.NewResponseController(w.inner).Flush() }

func (w *responseWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.inner).Hijack()
}
