// Package recipes_test tests the recipes of docs/recipes.md and docs/scheduled.md.
package recipes_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/lockmw/go/examples/recipes/echolock"
	"github.com/lockmw/go/examples/recipes/ginlock"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
)

// errNoStock is an error of a handler that its framework answers.
var errNoStock = errors.New("no stock")

// A shop is a service with one locked route, POST /users/:userID/orders. The framework's own middleware is around
// the lock.
type shop struct {
	lock  func(http.Handler) http.Handler
	place func(ctx context.Context) error // nil: returns immediately
	raw   http.HandlerFunc                // handles GET /users/:userID/raw under the lock, as in net/http

	mu       sync.Mutex
	statuses []int // statuses in the middleware outside the lock
	ended    int   // requests whose context had ended in that middleware
}

func (s *shop) note(ctx context.Context, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses = append(s.statuses, status)
	if ctx.Err() != nil {
		s.ended++
	}
}

type callerKey struct{}

// caller is the user that authentication puts into the request's context.
func caller(ctx context.Context) (string, bool) {
	id, ok := ctx.Value(callerKey{}).(string)
	return id, ok
}

func identified(r *http.Request) *http.Request {
	if id := r.Header.Get("X-User"); id != "" {
		return r.WithContext(context.WithValue(r.Context(), callerKey{}, id))
	}
	return r
}

func (s *shop) order(ctx context.Context) error {
	if s.place == nil {
		return nil
	}
	return s.place(ctx)
}

func ginShop(s *shop) http.Handler {
	gin.SetMode(gin.TestMode)
	e := gin.New()
	e.Use(func(c *gin.Context) {
		defer func() { s.note(c.Request.Context(), c.Writer.Status()) }()
		c.Next()
	}, gin.RecoveryWithWriter(io.Discard), func(c *gin.Context) {
		c.Request = identified(c.Request)
		c.Set("user", c.GetHeader("X-User"))
	})
	e.POST("/users/:userID/orders", ginlock.Wrap(s.lock), func(c *gin.Context) {
		err := s.order(c.Request.Context())
		switch {
		case errors.Is(err, errNoStock):
			c.AbortWithStatusJSON(http.StatusUnprocessableEntity, gin.H{"message": err.Error()})
		case err != nil:
			_ = c.Error(err)
		default:
			c.Header("Location", "/orders/7")
			c.JSON(http.StatusCreated, gin.H{"user": c.Param("userID"), "of": c.GetString("user")})
		}
	}, func(c *gin.Context) { c.Header("X-Next", "ran") })
	e.GET("/users/:userID/raw", ginlock.Wrap(s.lock), func(c *gin.Context) { s.raw(c.Writer, c.Request) })
	return e
}

func echoShop(s *shop) http.Handler {
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			err := next(c)
			_, status := echo.ResolveResponseStatus(c.Response(), err)
			s.note(c.Request().Context(), status)
			return err
		}
	}, middleware.Recover(), func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			c.SetRequest(identified(c.Request()))
			c.Set("user", c.Request().Header.Get("X-User"))
			return next(c)
		}
	})
	e.POST("/users/:userID/orders", func(c *echo.Context) error {
		err := s.order(c.Request().Context())
		if errors.Is(err, errNoStock) {
			return echo.NewHTTPError(http.StatusUnprocessableEntity, err.Error())
		}
		if err != nil {
			return err
		}
		c.Response().Header().Set("Location", "/orders/7")
		return c.JSON(http.StatusCreated, map[string]any{"user": c.Param("userID"), "of": c.Get("user")})
	}, echolock.Wrap(s.lock))
	e.GET("/users/:userID/raw", func(c *echo.Context) error {
		s.raw(c.Response(), c.Request())
		return nil
	}, echolock.Wrap(s.lock))
	return e
}

// eachFramework runs test with shops made by gin and by echo.
func eachFramework(t *testing.T, test func(t *testing.T, serving func(*shop) http.Handler)) {
	t.Helper()
	t.Run("gin", func(t *testing.T) { t.Parallel(); test(t, ginShop) })
	t.Run("echo", func(t *testing.T) { t.Parallel(); test(t, echoShop) })
}

func byUser(l lockmw.Locker, opts ...httpmw.Option) func(http.Handler) http.Handler {
	return httpmw.WithLock(l, httpmw.By("user", httpmw.PathValue("userID")), opts...)
}

func order(h http.Handler, user string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodPost, "/users/"+user+"/orders", nil)
	req.Header.Set("X-User", user)
	h.ServeHTTP(rec, req)
	return rec
}

// problemOf returns the problem type of a response; "" if the response is not exactly one problem.
func problemOf(t *testing.T, rec *httptest.ResponseRecorder) string {
	t.Helper()
	var p struct{ Type string }
	if rec.Header().Get("Content-Type") != "application/problem+json" {
		return ""
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
		t.Errorf("the body is not one problem: %q: %v", rec.Body, err)
	}
	return p.Type
}

func TestRequestsForTheSameKeyAreHandledOneAtATime(t *testing.T) {
	t.Parallel()
	eachFramework(t, func(t *testing.T, serving func(*shop) http.Handler) {
		begun, end := make(chan struct{}), make(chan struct{})
		var orders atomic.Int32
		s := &shop{lock: byUser(lockmw.NewLocal()), place: func(context.Context) error {
			if orders.Add(1) == 1 {
				close(begun)
				<-end
			}
			return nil
		}}
		h := serving(s)
		done := make(chan *httptest.ResponseRecorder)
		go func() { done <- order(h, "42") }()
		<-begun
		busy := order(h, "42")
		if busy.Code != http.StatusConflict || problemOf(t, busy) != "lock-busy" || busy.Header().Get("Retry-After") == "" {
			t.Errorf("while it is handled: %d %q", busy.Code, busy.Body)
		}
		if busy.Header().Get("X-Next") != "" {
			t.Error("a refused request went on to the next handler")
		}
		if other := order(h, "43"); other.Code != http.StatusCreated || !strings.Contains(other.Body.String(), `"43"`) {
			t.Errorf("another key: %d %q", other.Code, other.Body)
		}
		close(end)
		if rec := <-done; rec.Code != http.StatusCreated || !strings.Contains(rec.Body.String(), `"of":"42"`) {
			t.Errorf("the first: %d %q", rec.Code, rec.Body)
		}
		if rec := order(h, "42"); rec.Code != http.StatusCreated {
			t.Errorf("afterwards: %d", rec.Code)
		}
		if want := []int{409, 201, 201, 201}; len(s.statuses) != 4 || s.statuses[0] != want[0] || s.statuses[1] != want[1] {
			t.Errorf("outside of the lock the statuses are %v, want %v", s.statuses, want)
		}
	})
}

func TestAnErrorHandlerMayAnswerLocked(t *testing.T) {
	t.Parallel()
	eachFramework(t, func(t *testing.T, serving func(*shop) http.Handler) {
		local := lockmw.NewLocal()
		h := serving(&shop{lock: byUser(local, httpmw.WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, lockmw.ErrBusy) {
				w.WriteHeader(http.StatusLocked)
				_, _ = io.WriteString(w, "later\n")
			}
		}))})
		_, hold, err := local.Lock(t.Context(), "user:42")
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Unlock()
		if rec := order(h, "42"); rec.Code != http.StatusLocked || rec.Body.String() != "later\n" {
			t.Errorf("%d %q", rec.Code, rec.Body)
		}
	})
}

// gin's handlers write their own errors, which stay unchanged. echo writes the returned error after the release of the
// lock.
func TestALostLockEndsTheContextAndNoSuccessIsSent(t *testing.T) {
	t.Parallel()
	for name, returned := range map[string]func(context.Context) error{
		"success":                func(context.Context) error { return nil },
		"the context's error":    context.Cause,
		"an error of the shop's": func(context.Context) error { return errNoStock },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachFramework(t, func(t *testing.T, serving func(*shop) http.Handler) {
				local := lockmw.NewLocal()
				s := &shop{lock: byUser(local), place: func(ctx context.Context) error {
					local.Expire("user:42")
					<-ctx.Done()
					if cause := context.Cause(ctx); !errors.Is(cause, lockmw.ErrLost) {
						t.Errorf("the context ends with %v", cause)
					}
					return returned(ctx)
				}}
				h, status, problem := serving(s), http.StatusInternalServerError, "lock-lost"
				if _, ok := h.(*gin.Engine); ok && errors.Is(returned(t.Context()), errNoStock) {
					status, problem = http.StatusUnprocessableEntity, ""
				}
				rec := order(h, "42")
				if rec.Code != status || problemOf(t, rec) != problem {
					t.Errorf("%d %q", rec.Code, rec.Body)
				}
				if rec.Header().Get("Location") != "" {
					t.Error("the header of the success was sent")
				}
				if s.ended != 0 || len(s.statuses) != 1 || s.statuses[0] != status {
					t.Errorf("outside of the lock: statuses %v, %d contexts have ended", s.statuses, s.ended)
				}
			})
		})
	}
}

func TestTheFrameworkAnswersErrorsAndPanics(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		place  func(context.Context) error
		status int
	}{
		"error": {func(context.Context) error { return errNoStock }, http.StatusUnprocessableEntity},
		"panic": {func(context.Context) error { panic("out of paper") }, http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachFramework(t, func(t *testing.T, serving func(*shop) http.Handler) {
				local := lockmw.NewLocal()
				s := &shop{lock: byUser(local), place: test.place}
				rec := order(serving(s), "42")
				if rec.Code != test.status || problemOf(t, rec) != "" || strings.Count(rec.Body.String(), "message") > 1 {
					t.Errorf("%d %q", rec.Code, rec.Body)
				}
				if s.ended != 0 || len(s.statuses) != 1 || s.statuses[0] != test.status {
					t.Errorf("outside of the lock: statuses %v, %d contexts have ended", s.statuses, s.ended)
				}
				_, hold, err := local.TryLock(t.Context(), "user:42")
				if err != nil {
					t.Fatalf("the lock was not released: %v", err)
				}
				_ = hold.Unlock()
			})
		})
	}
}
