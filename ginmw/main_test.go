package ginmw_test

import (
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/go/internal/test/leak"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	leak.VerifyMain(m.Run)
}
