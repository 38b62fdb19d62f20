package recipes_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v5"

	"github.com/lockmw/go/examples/recipes/echolock"
	"github.com/lockmw/go/examples/recipes/ginlock"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
)

// A key function sees the request only; values of c.Set are not visible there.
func TestAKeyIsMadeOfTheRequestAndItsContext(t *testing.T) {
	t.Parallel()
	eachFramework(t, func(t *testing.T, serving func(*shop) http.Handler) {
		for name, test := range map[string]struct {
			claim  func(context.Context) (string, bool)
			status int
		}{
			"the request's context": {caller, http.StatusConflict},
			"c.Set": {func(ctx context.Context) (string, bool) {
				id, ok := ctx.Value("user").(string)
				return id, ok
			}, http.StatusUnauthorized},
		} {
			local := lockmw.NewLocal()
			h := serving(&shop{lock: httpmw.WithLock(local, httpmw.By("user", httpmw.Claim(test.claim)))})
			_, hold, err := local.Lock(t.Context(), "user:42")
			if err != nil {
				t.Fatal(err)
			}
			if rec := order(h, "42"); rec.Code != test.status {
				t.Errorf("%s: %d %q", name, rec.Code, rec.Body)
			}
			_ = hold.Unlock()
		}
	})
}

// A key has a parameter in the same form as the framework's handlers.
func TestOneUserInTwoSpellings(t *testing.T) {
	t.Parallel()
	unescaping := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(echo.RouterConfig{UnescapePathParamValues: true})})
	local := lockmw.NewLocal()
	unescaping.POST("/users/:userID/orders", func(c *echo.Context) error { return c.String(http.StatusCreated, c.Param("userID")) },
		echolock.Wrap(byUser(local)))
	_, hold, err := local.Lock(t.Context(), "user:42")
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Unlock()
	for name, test := range map[string]struct {
		h      http.Handler
		status int
	}{
		"gin":                               {ginShop(&shop{lock: byUser(local)}), http.StatusConflict},
		"echo":                              {echoShop(&shop{lock: byUser(local)}), http.StatusCreated},
		"echo with UnescapePathParamValues": {unescaping, http.StatusConflict},
	} {
		if rec := order(test.h, "%34%32"); rec.Code != test.status {
			t.Errorf("%s: %d %q", name, rec.Code, rec.Body)
		}
	}
}

// gin sends a status only with the body, but for the lock the answer has begun with the status.
func TestAStatusOfGinBeginsTheAnswer(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	e := gin.New()
	e.POST("/users/:userID/orders", ginlock.Wrap(byUser(local)), func(c *gin.Context) {
		c.Status(http.StatusAccepted)
		local.Expire("user:42")
	})
	if rec := order(e, "42"); rec.Code != http.StatusAccepted {
		t.Errorf("%d %q", rec.Code, rec.Body)
	}
}

// gin.Context does not carry the lock, unless the engine falls back to the request's context.
func TestTheContextOfGinAsAContext(t *testing.T) {
	t.Parallel()
	for _, fallback := range []bool{false, true} {
		local := lockmw.NewLocal()
		e := gin.New()
		e.ContextWithFallback = fallback
		e.POST("/users/:userID/orders", ginlock.Wrap(byUser(local)), func(c *gin.Context) {
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
		e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/users/42/orders", nil))
	}
}
