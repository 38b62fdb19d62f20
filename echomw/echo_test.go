package echomw_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/lockmw/go/echomw"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

var user = httpmw.By("user", httpmw.PathValue("userID"))

func send(h http.Handler, method, path, key string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, nil)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	h.ServeHTTP(rec, r)
	return rec
}

func nothing(c *echo.Context) error { return c.NoContent(http.StatusOK) }

// Each function passes its arguments to the one of httpmw.
func TestEachMiddlewareIsTheOneOfHTTPMW(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mount     func(*lockmw.Local) echo.MiddlewareFunc
		get, post int // while a reader holds user:42
	}{
		"WithLock":   {func(l *lockmw.Local) echo.MiddlewareFunc { return echomw.WithLock(l, user) }, 409, 409},
		"an option":  {func(l *lockmw.Local) echo.MiddlewareFunc { return echomw.WithLock(l, user, httpmw.WithMethods("GET")) }, 409, 200},
		"WithRWLock": {func(l *lockmw.Local) echo.MiddlewareFunc { return echomw.WithRWLock(l, user) }, 200, 409},
		"WithLockAll": {func(l *lockmw.Local) echo.MiddlewareFunc {
			return echomw.WithLockAll(l, httpmw.All(httpmw.Const("a"), user))
		}, 409, 409},
	} {
		local, e := lockmw.NewLocal(), echo.New()
		e.Any("/users/:userID", nothing, test.mount(local))
		usertest.Occupy(t, local.RLocker(), "user:42")
		get, post := send(e, "GET", "/users/42", "").Code, send(e, "POST", "/users/42", "").Code
		if get != test.get || post != test.post {
			t.Errorf("%s: GET %d and POST %d, want %d and %d", name, get, post, test.get, test.post)
		}
	}
}

// echo answers an error of the handler before its outcome is recorded.
func TestARepetitionAfterAnErrorOfEcho(t *testing.T) {
	t.Parallel()
	var fails error
	e := echo.New()
	e.POST("/users/:userID", func(c *echo.Context) error {
		if fails != nil {
			return fails
		}
		return c.JSON(http.StatusCreated, "done")
	}, echomw.Idempotent(idempotency.New(lockmw.NewLocal()), user, idempotency.Refuse, httpmw.WithRequired()))
	for i, request := range []struct {
		fails       error
		key, answer string
	}{
		{nil, "", "idempotency-key-missing"},
		{echo.NewHTTPError(http.StatusUnprocessableEntity, "no stock"), "a", "no stock"},
		{nil, "a", "done"},
		{errors.New("never returned"), "a", "done"},
		{errors.New("out of paper"), "b", "Internal Server Error"},
		{nil, "b", "idempotency-unknown-outcome"},
	} {
		fails = request.fails
		if rec := send(e, "POST", "/users/42", request.key); !strings.Contains(rec.Body.String(), request.answer) {
			t.Errorf("request %d: %s, want %s", i+1, rec.Body, request.answer)
		}
	}
}

func TestClaimFindsWhatSetHasSet(t *testing.T) {
	t.Parallel()
	claim := echomw.Claim(func(c *echo.Context) (string, bool) { id, ok := c.Get("user").(string); return id, ok })
	for id, want := range map[any]int{"42": http.StatusConflict, "43": http.StatusOK, nil: http.StatusUnauthorized} {
		local, e := lockmw.NewLocal(), echo.New()
		e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error {
				c.Set("user", id)
				return next(c)
			}
		})
		e.GET("/", nothing, echomw.WithLock(local, httpmw.By("user", claim)))
		usertest.Occupy(t, local, "user:42")
		if rec := send(e, "GET", "/", ""); rec.Code != want {
			t.Errorf("user %v: %d %q, want %d", id, rec.Code, rec.Body, want)
		}
	}
	if _, err := claim(httptest.NewRequest(http.MethodGet, "/", nil)); !errors.Is(err, httpmw.ErrNoClaim) {
		t.Errorf("without Wrap: %v", err)
	}
	if usertest.Recovered(func() { echomw.Claim(nil) }) == nil {
		t.Error("Claim(nil) does not panic")
	}
}

// A key has a parameter in the same form as the handler.
func TestOneUserInTwoSpellings(t *testing.T) {
	t.Parallel()
	for unescape, want := range map[bool]int{false: http.StatusOK, true: http.StatusConflict} {
		local := lockmw.NewLocal()
		e := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(echo.RouterConfig{UnescapePathParamValues: unescape})})
		e.GET("/users/:userID", nothing, echomw.WithLock(local, user))
		usertest.Occupy(t, local, "user:42")
		if rec := send(e, "GET", "/users/%34%32", ""); rec.Code != want {
			t.Errorf("UnescapePathParamValues %v: %d %q, want %d", unescape, rec.Code, rec.Body, want)
		}
	}
}
