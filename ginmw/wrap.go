package ginmw

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

// Wrap converts any net/http middleware to a gin handler, which runs the handlers that follow inside the middleware. During that
// time c.Request and c.Writer belong to the middleware; afterwards they are restored. If the middleware does not call its handler,
// the gin context is aborted. The request has the parameters of the route (httpmw.PathValue) and its pattern.
func Wrap(middleware func(http.Handler) http.Handler) gin.HandlerFunc {
	return wrap(middleware, func(c *gin.Context, _ *responseWriter) { c.Next() })
}

// wrap is Wrap with a function that calls the handlers that follow.
func wrap(middleware func(http.Handler) http.Handler, next func(*gin.Context, *responseWriter)) gin.HandlerFunc {
	return func(c *gin.Context) {
		request, writer := c.Request, c.Writer
		request.Pattern = c.FullPath()
		for _, p := range c.Params {
			request.SetPathValue(p.Key, p.Value)
		}
		known := request.WithContext(context.WithValue(request.Context(), ginKey{}, c)) // for Claim
		handled := false
		defer func() {
			c.Request, c.Writer = request, writer // after a panic the outer recovery answers
			if request.MultipartForm == nil {
				request.MultipartForm = known.MultipartForm // net/http removes its files
			}
			if !handled {
				c.Abort()
			}
		}()
		middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handled = true
			inner := &responseWriter{ResponseWriter: writer, inner: w}
			c.Request, c.Writer = r, inner
			next(c, inner)
			inner.sendStatus()
		})).ServeHTTP(writer, known)
	}
}

// A responseWriter is gin's writer, but writes through the middleware's writer, which wraps gin's. As in gin, a status is sent with
// the first write or at the end of the handlers: until then the response has not begun.
type responseWriter struct {
	gin.ResponseWriter
	inner   http.ResponseWriter
	status  int  // set and not sent; 0: none
	outside int  // sent if the handlers set no status; 0: none
	begun   bool // the middleware may hold back what the handlers have written
}

func (w *responseWriter) Unwrap() http.ResponseWriter { return w.inner }

func (w *responseWriter) WriteHeader(code int) {
	if code > 0 && !w.begun {
		w.status = code
	}
}

// sendStatus sends the status that a handler has set.
func (w *responseWriter) sendStatus() {
	if w.status == 0 && !w.begun {
		w.status = w.outside
	}
	if w.status > 0 {
		w.begun = true
		w.inner.WriteHeader(w.status)
		w.status = 0
	}
}

func (w *responseWriter) begin() {
	w.sendStatus()
	w.begun = true
}

func (w *responseWriter) Status() int {
	if w.status > 0 {
		return w.status
	}
	return w.ResponseWriter.Status()
}

func (w *responseWriter) Written() bool { return w.begun || w.ResponseWriter.Written() }

func (w *responseWriter) WriteHeaderNow() {
	w.begin()
	_, _ = w.inner.Write(nil)
}

func (w *responseWriter) Write(b []byte) (int, error) {
	w.begin()
	return w.inner.Write(b)
}

func (w *responseWriter) WriteString(s string) (int, error) {
	w.begin()
	return io.WriteString(w.inner, s)
}

func (w *responseWriter) Flush() {
	w.begin()
	_ = http.NewResponseController(w.inner).Flush()
}

func (w *responseWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.inner).Hijack()
}
