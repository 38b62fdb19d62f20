package ginmw_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/go/ginmw"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

var user = httpmw.By("user", httpmw.PathValue("userID"))

func send(h http.Handler, method, path string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(method, path, nil))
	return rec
}

// Each function passes its arguments to the one of httpmw.
func TestEachMiddlewareIsTheOneOfHTTPMW(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mount     func(*lockmw.Local) gin.HandlerFunc
		get, post int // while a reader holds user:42
	}{
		"WithLock":   {func(l *lockmw.Local) gin.HandlerFunc { return ginmw.WithLock(l, user) }, 409, 409},
		"an option":  {func(l *lockmw.Local) gin.HandlerFunc { return ginmw.WithLock(l, user, httpmw.WithMethods("GET")) }, 409, 200},
		"WithRWLock": {func(l *lockmw.Local) gin.HandlerFunc { return ginmw.WithRWLock(l, user) }, 200, 409},
		"WithLockAll": {func(l *lockmw.Local) gin.HandlerFunc {
			return ginmw.WithLockAll(l, httpmw.All(httpmw.Const("a"), user))
		}, 409, 409},
	} {
		local, e := lockmw.NewLocal(), gin.New()
		e.Any("/users/:userID", test.mount(local), func(*gin.Context) {})
		usertest.Occupy(t, local.RLocker(), "user:42")
		if get, post := send(e, "GET", "/users/42").Code, send(e, "POST", "/users/42").Code; get != test.get || post != test.post {
			t.Errorf("%s: GET %d and POST %d, want %d and %d", name, get, post, test.get, test.post)
		}
	}
}

func TestARepetitionGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	e, orders := gin.New(), 0
	e.POST("/users/:userID", ginmw.Idempotent(idempotency.New(lockmw.NewLocal()), user, idempotency.Refuse, httpmw.WithRequired()),
		func(c *gin.Context) { orders++; c.Status(http.StatusAccepted) })
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/users/42", nil)
		r.Header.Set("Idempotency-Key", "a")
		rec := httptest.NewRecorder()
		e.ServeHTTP(rec, r)
		if rec.Code != http.StatusAccepted || orders != 1 {
			t.Errorf("%d after %d orders", rec.Code, orders)
		}
	}
	if rec := send(e, "POST", "/users/42"); rec.Code != http.StatusBadRequest {
		t.Errorf("without a key: %d", rec.Code)
	}
}

// gin sets the status of an unknown route before it calls the middleware of the engine, and outer middleware may set one as well.
func TestAStatusThatWasSetOutsideStays(t *testing.T) {
	t.Parallel()
	e := gin.New()
	e.HandleMethodNotAllowed = true
	e.Use(func(c *gin.Context) {
		if c.FullPath() != "" {
			c.Status(http.StatusAccepted)
		}
	})
	e.Use(ginmw.Idempotent(idempotency.New(lockmw.NewLocal()), httpmw.Const("user", "42"), idempotency.Refuse))
	e.GET("/orders", func(*gin.Context) {})
	e.POST("/carts", func(c *gin.Context) { _, _ = c.Writer.WriteString("cart") })
	for path, want := range map[string]int{"/unknown": http.StatusNotFound, "/orders": http.StatusMethodNotAllowed, "/carts": http.StatusAccepted} {
		for _, try := range []string{"the first try", "the second"} {
			r := httptest.NewRequest(http.MethodPost, path, nil)
			r.Header.Set("Idempotency-Key", path)
			rec := httptest.NewRecorder()
			if e.ServeHTTP(rec, r); rec.Code != want || rec.Body.Len() == 0 {
				t.Errorf("%s of %s: status %d %q, want %d", try, path, rec.Code, rec.Body, want)
			}
		}
	}
}

// The middleware that answers errors is usually the outermost. Idempotent cannot see its answer.
func TestAnErrorThatOuterMiddlewareAnswersIsNoSuccess(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handler      gin.HandlerFunc
		first, again int
		orders       int
	}{
		"an error":                   {func(c *gin.Context) { _ = c.Error(errors.New("no stock")) }, 422, 409, 1},
		"an error after its answer":  {func(c *gin.Context) { c.String(http.StatusOK, "done"); _ = c.Error(errors.New("no mail")) }, 200, 200, 1},
		"an error with its status":   {func(c *gin.Context) { c.Status(http.StatusNotFound); _ = c.Error(errors.New("no item")) }, 422, 422, 2},
		"an error of an outer layer": {func(*gin.Context) {}, 200, 200, 1},
	} {
		e, orders := gin.New(), 0
		e.Use(func(c *gin.Context) {
			if name == "an error of an outer layer" {
				_ = c.Error(errors.New("no language"))
				c.Next()
				return
			}
			c.Next()
			if len(c.Errors) > 0 && !c.Writer.Written() {
				c.JSON(http.StatusUnprocessableEntity, c.Errors.JSON())
			}
		})
		e.POST("/users/:userID", ginmw.Idempotent(idempotency.New(lockmw.NewLocal()), user, idempotency.Refuse),
			func(c *gin.Context) { orders++; test.handler(c) })
		for _, want := range []int{test.first, test.again} {
			r := httptest.NewRequest(http.MethodPost, "/users/42", nil)
			r.Header.Set("Idempotency-Key", "a")
			rec := httptest.NewRecorder()
			if e.ServeHTTP(rec, r); rec.Code != want {
				t.Errorf("%s: status %d %q, want %d", name, rec.Code, rec.Body, want)
			}
		}
		if orders != test.orders {
			t.Errorf("%s: the handler ran %d times, want %d", name, orders, test.orders)
		}
	}
}

func TestClaimFindsWhatSetHasSet(t *testing.T) {
	t.Parallel()
	claim := ginmw.Claim(func(c *gin.Context) (string, bool) { return c.GetString("user"), true })
	for name, test := range map[string]struct {
		set  string
		lock gin.HandlerFunc
		want int
	}{
		"busy":        {"42", nil, http.StatusConflict},
		"free":        {"43", nil, http.StatusOK},
		"no identity": {"", nil, http.StatusUnauthorized},
		"without Wrap": {"42", func(c *gin.Context) {
			if _, err := claim(c.Request); errors.Is(err, httpmw.ErrNoClaim) {
				c.Status(http.StatusTeapot)
			}
		}, http.StatusTeapot},
	} {
		local, e := lockmw.NewLocal(), gin.New()
		lock := test.lock
		if lock == nil {
			lock = ginmw.WithLock(local, httpmw.By("user", claim))
		}
		e.GET("/", func(c *gin.Context) { c.Set("user", test.set) }, lock, func(*gin.Context) {})
		usertest.Occupy(t, local, "user:42")
		if rec := send(e, "GET", "/"); rec.Code != test.want {
			t.Errorf("%s: %d %q, want %d", name, rec.Code, rec.Body, test.want)
		}
	}
	if usertest.Recovered(func() { ginmw.Claim(nil) }) == nil {
		t.Error("Claim(nil) does not panic")
	}
}

// A key has a parameter in the same form as the handler.
func TestOneUserInTwoSpellings(t *testing.T) {
	t.Parallel()
	local, e := lockmw.NewLocal(), gin.New()
	e.GET("/users/:userID", ginmw.WithLock(local, user), func(*gin.Context) {})
	usertest.Occupy(t, local, "user:42")
	if rec := send(e, "GET", "/users/%34%32"); rec.Code != http.StatusConflict {
		t.Errorf("%d %q", rec.Code, rec.Body)
	}
}

// As in gin, a status alone does not begin the response.
func TestAStatusBeginsTheResponseAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handle func(*gin.Context, *lockmw.Local)
		want   int
	}{
		"a status":             {func(c *gin.Context, _ *lockmw.Local) { c.Status(http.StatusAccepted) }, http.StatusAccepted},
		"another status":       {func(c *gin.Context, _ *lockmw.Local) { c.Status(http.StatusAccepted); c.JSON(http.StatusTeapot, 1) }, http.StatusTeapot},
		"a status, and a loss": {func(c *gin.Context, l *lockmw.Local) { c.Status(http.StatusAccepted); l.Expire("user:42") }, http.StatusInternalServerError},
		"a refusal":            {func(c *gin.Context, l *lockmw.Local) { l.Expire("user:42"); c.Status(http.StatusTeapot) }, http.StatusTeapot},
		"a body, and a loss":   {func(c *gin.Context, l *lockmw.Local) { c.JSON(http.StatusAccepted, 1); l.Expire("user:42") }, http.StatusAccepted},
		"nothing":              {func(*gin.Context, *lockmw.Local) {}, http.StatusOK},
	} {
		local, e := lockmw.NewLocal(), gin.New()
		seen := 0
		e.GET("/users/:userID", func(c *gin.Context) { c.Next(); seen = c.Writer.Status() }, ginmw.WithLock(local, user), func(c *gin.Context) {
			test.handle(c, local)
			if begun := c.Writer.Written(); begun && c.Writer.Size() < 0 {
				t.Errorf("%s: written without a size", name)
			}
		})
		if rec := send(e, "GET", "/users/42"); rec.Code != test.want || seen != test.want {
			t.Errorf("%s: %d %q, seen outside as %d, want %d", name, rec.Code, rec.Body, seen, test.want)
		}
	}
}

// gin.Context does not carry the lock, unless the engine falls back to the request's context.
func TestTheContextOfGinAsAContext(t *testing.T) {
	t.Parallel()
	for _, fallback := range []bool{false, true} {
		local, e := lockmw.NewLocal(), gin.New()
		e.ContextWithFallback = fallback
		e.GET("/users/:userID", ginmw.WithLock(local, user), func(c *gin.Context) {
			if _, err := lockmw.Held(c.Request.Context(), "user:42"); err != nil {
				t.Errorf("the request's context: %v", err)
			}
			_, err := lockmw.Held(c, "user:42")
			if fallback != (err == nil) || !fallback && !errors.Is(err, lockmw.ErrNotHeld) {
				t.Errorf("ContextWithFallback %v: %v", fallback, err)
			}
			local.Expire("user:42")
			if ended := c.Err() != nil; ended != fallback {
				t.Errorf("ContextWithFallback %v: after the loss the context has ended: %v", fallback, ended)
			}
		})
		send(e, "GET", "/users/42")
	}
}

// gin's own streaming functions use the lock's writer.
func TestGinStreamsEvents(t *testing.T) {
	t.Parallel()
	e := gin.New()
	e.GET("/users/:userID", ginmw.WithLock(lockmw.NewLocal(), user), func(c *gin.Context) {
		n := 0
		c.Stream(func(io.Writer) bool {
			n++
			c.SSEvent("n", n)
			return n < 3
		})
	})
	server := httptest.NewServer(e)
	defer server.Close()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, server.URL+"/users/42", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); string(text) != "event:n\ndata:1\n\nevent:n\ndata:2\n\nevent:n\ndata:3\n\n" || err != nil {
		t.Errorf("%d %q %v", resp.StatusCode, text, err)
	}
}
