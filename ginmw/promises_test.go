package ginmw_test

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/go/ginmw"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/mounttest"
)

// The list of cases is shared with the modules for other frameworks.
func TestGinKeepsThePromises(t *testing.T) {
	f := mounttest.Framework{User: httpmw.PathValue("userID"), Serve: serve}
	f.Run(t)
}

func serve(s *mounttest.Shop) http.Handler {
	e := gin.New()
	e.Use(func(c *gin.Context) {
		defer func() { s.Note(c.Request, c.Writer.Status()) }()
		c.Next()
	}, gin.RecoveryWithWriter(io.Discard), func(c *gin.Context) {
		c.Request = mounttest.Identify(c.Request)
	})
	locked := e.Group("/users/:userID")
	if s.Once != nil {
		locked.Use(ginmw.Idempotent(s.Once.Runner, s.Once.Scope, s.Once.Policy))
	}
	for _, m := range s.Mount {
		locked.Use(ginmw.Wrap(m))
	}
	locked.POST("/orders", func(c *gin.Context) {
		var err error
		if s.Order != nil {
			err = s.Order(c.Request.Context())
		}
		switch {
		case errors.Is(err, mounttest.ErrNoStock):
			c.AbortWithStatusJSON(http.StatusUnprocessableEntity, gin.H{"message": err.Error()})
		case err != nil:
			_ = c.Error(err)
		default:
			c.Header("Location", "/orders/7")
			c.Status(http.StatusCreated)
		}
	}, func(c *gin.Context) {
		c.Header("X-Next", "ran")
		if len(c.Errors) == 0 {
			c.JSON(http.StatusCreated, gin.H{"user": c.Param("userID")})
		}
	})
	locked.POST("/raw", func(c *gin.Context) { s.Raw(c.Writer, c.Request) })
	return e
}
