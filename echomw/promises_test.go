package echomw_test

import (
	"errors"
	"log/slog"
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/lockmw/go/echomw"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/mounttest"
)

// The list of cases is shared with the modules for other frameworks.
func TestEchoKeepsThePromises(t *testing.T) {
	f := mounttest.Framework{User: httpmw.PathValue("userID"), Serve: serve, AnswersLate: true}
	f.Run(t)
}

func serve(s *mounttest.Shop) http.Handler {
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler)
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			err := next(c)
			_, status := echo.ResolveResponseStatus(c.Response(), err)
			s.Note(c.Request(), status)
			return err
		}
	}, middleware.Recover(), func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			c.SetRequest(mounttest.Identify(c.Request()))
			return next(c)
		}
	})
	locked := e.Group("/users/:userID")
	if s.Once != nil {
		locked.Use(echomw.Idempotent(s.Once.Runner, s.Once.Scope, s.Once.Policy))
	}
	for _, m := range s.Mount {
		locked.Use(echomw.Wrap(m))
	}
	locked.POST("/orders", func(c *echo.Context) error {
		if s.Order != nil {
			if err := s.Order(c.Request().Context()); errors.Is(err, mounttest.ErrNoStock) {
				return echo.NewHTTPError(http.StatusUnprocessableEntity, err.Error())
			} else if err != nil {
				return err
			}
		}
		c.Response().Header().Set("X-Next", "ran")
		c.Response().Header().Set("Location", "/orders/7")
		return c.JSON(http.StatusCreated, map[string]any{"user": c.Param("userID")})
	})
	locked.POST("/raw", func(c *echo.Context) error {
		s.Raw(c.Response(), c.Request())
		return nil
	})
	return e
}
